"""How long a number may be that somebody has written."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 100
"""Digits beyond which nothing is a number that is meant; Python itself reads 4,300 of them and no more."""

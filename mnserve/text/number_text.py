"""Limit on the length of numbers from outside."""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 100
"""Digits of a number that is read; Python itself reads at most 4,300."""

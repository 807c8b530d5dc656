"""News that a request is in the queue of its model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

OnAdmitted: TypeAlias = Callable[[int], None]
"""Called with the bytes of the tensors of a request once it is in the queue."""

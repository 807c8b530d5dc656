"""Memory in which the rows of several requests are laid out for one run, used again by later runs.

Shapes: request i brings B_i rows of (*dims); the batch has B = sum of B_i rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np

from mnserve.execution.batch import InferenceWork

__all__ = ["BatchMemory", "Lease"]

Array: TypeAlias = np.ndarray[Any, Any]
_Key: TypeAlias = tuple[str, tuple[int, ...], str, int]

_LEAST_BYTES: Final = 2**17
"""Smaller batches come from the allocator, which does not go to the operating system for them. Larger ones would come
as fresh pages every time, and touching those costs more than writing the rows."""
_MOST_BYTES: Final = 2**28
"""Memory that one model keeps."""
_SHAPES: Final = 8
"""Shapes of rows whose memory is kept."""


class Lease:
    """The joined inputs of one batch, and the memory that they lie in.

    Attributes:
        feeds: Input name -> (B, *dims) array.
        blocks: What goes back once the batch has run.
    """

    __slots__ = ("blocks", "feeds")

    def __init__(self, feeds: Mapping[str, Array], blocks: Sequence[tuple[_Key, Array]] = ()) -> None:
        self.feeds = feeds
        self.blocks = blocks

    def shares(self, array: Array) -> bool:
        """Whether an output of the engine lies in this memory, so that the next batch would write over it."""
        return any(np.may_share_memory(array, block) for _, block in self.blocks)


class BatchMemory:
    """Joins the inputs of requests, in any thread.

    Args:
        max_rows: Most rows of a batch.
        spare: Blocks of each shape that are kept; as many as there are batches at a time.
    """

    def __init__(self, max_rows: int, spare: int) -> None:
        self._max_rows = max_rows
        self._spare = spare
        self._free: OrderedDict[_Key, list[Array]] = OrderedDict()
        self._kept = 0
        self._lock = Lock()

    def join(self, works: Sequence[InferenceWork], rows: int) -> Lease:
        """Writes every row once, side by side; a single request is taken as it is.

        Args:
            works: Requests whose inputs differ in nothing but the number of rows.
            rows: B.
        """
        if len(works) == 1:
            return Lease(works[0].feeds)
        feeds: dict[str, Array] = {}
        blocks: list[tuple[_Key, Array]] = []
        for name, first in works[0].feeds.items():
            parts = [work.feeds[name] for work in works]
            if first.dtype == object or sum(part.nbytes for part in parts) < _LEAST_BYTES:
                feeds[name] = np.concatenate(parts)
                continue
            room = min(self._max_rows, 1 << (rows - 1).bit_length())
            key = (name, first.shape[1:], first.dtype.str, room)
            block = self._take(key)
            if block is None:
                block = np.empty((room, *first.shape[1:]), dtype=first.dtype)
            blocks.append((key, block))
            feeds[name] = np.concatenate(parts, out=block[:rows])
        return Lease(feeds, blocks)

    def give_back(self, lease: Lease) -> None:
        """Takes the memory of a batch that has run."""
        blocks, lease.blocks = lease.blocks, ()
        if not blocks:
            return
        with self._lock:
            for key, block in blocks:
                free = self._free.setdefault(key, [])
                self._free.move_to_end(key)
                if len(free) < self._spare and self._kept + block.nbytes <= _MOST_BYTES:
                    free.append(block)
                    self._kept += block.nbytes
            while len(self._free) > _SHAPES:
                _, dropped = self._free.popitem(last=False)
                self._kept -= sum(block.nbytes for block in dropped)

    def _take(self, key: _Key) -> Array | None:
        with self._lock:
            free = self._free.get(key)
            if not free:
                return None
            block = free.pop()
            self._kept -= block.nbytes
            return block

"""Memory in which the rows of several requests are joined for one batch, used again by later batches.

Shapes: request i brings B_i rows of (*dims); the batch has B = sum of B_i rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np

from mnserve.codec.decoding import InferenceWork

Array: TypeAlias = np.ndarray[Any, Any]
_Key: TypeAlias = tuple[str, tuple[int, ...], str, int]

MIN_BYTES: Final = 2**17
"""Smaller batches come from the allocator, which does not go to the operating system for them. Larger ones would come
as fresh pages every time, and touching those costs more than writing the rows."""
MAX_BYTES: Final = 2**28
"""Memory that one model keeps."""
MAX_SHAPES: Final = 8
"""Shapes of rows whose memory is kept."""


class Lease:
    """Joined inputs of one batch, and the memory that they lie in.

    Attributes:
        feeds: Input name -> (B, *dims) array.
        blocks: Memory to give back once the batch has run; none where the inputs are the allocator's.
    """

    __slots__ = ("blocks", "feeds")

    def __init__(self, feeds: Mapping[str, Array], blocks: Sequence[tuple[_Key, Array]] = ()) -> None:
        self.feeds = feeds
        self.blocks = blocks

    def detached(self, outputs: list[list[Array]]) -> list[list[Array]]:
        """Copies outputs of an engine that lie in this memory: the next batch would write over them.

        Args:
            outputs: Arrays of each caller.
        """
        if not self.blocks:
            return outputs
        return [[array.copy() if self._holds(array) else array for array in arrays] for arrays in outputs]

    def _holds(self, array: Array) -> bool:
        return any(np.may_share_memory(array, block) for _, block in self.blocks)


class BatchMemory:
    """Joins the inputs of several requests, in any thread.

    Args:
        max_rows: Most rows of a batch.
        spare: Blocks of each shape that are kept; as many as there are batches at a time.
        max_bytes: Most bytes that are kept.
    """

    def __init__(self, max_rows: int, spare: int, max_bytes: int = MAX_BYTES) -> None:
        self._max_rows = max_rows
        self._spare = spare
        self._max_bytes = max_bytes
        self._free: OrderedDict[_Key, list[Array]] = OrderedDict()
        self._lock = Lock()
        self.kept_bytes = 0
        """Memory that is kept for later batches."""

    def join(self, works: Sequence[InferenceWork], rows: int) -> Lease:
        """Writes every row once, side by side.

        Args:
            works: Requests whose inputs differ in nothing but the number of rows.
            rows: B.
        """
        feeds: dict[str, Array] = {}
        blocks: list[tuple[_Key, Array]] = []
        for name, first in works[0].feeds.items():
            parts = [work.feeds[name] for work in works]
            if first.dtype == object or sum(part.nbytes for part in parts) < MIN_BYTES:
                feeds[name] = np.concatenate(parts)
                continue
            block_rows = min(self._max_rows, 1 << (rows - 1).bit_length())
            key = (name, first.shape[1:], first.dtype.str, block_rows)
            block = self._take(key)
            if block is None:
                block = np.empty((block_rows, *first.shape[1:]), dtype=first.dtype)
            blocks.append((key, block))
            feeds[name] = np.concatenate(parts, out=block[:rows])
        return Lease(feeds, blocks)

    def give_back(self, lease: Lease) -> None:
        """Keeps the memory of a batch that has run for later ones."""
        blocks, lease.blocks = lease.blocks, ()
        if not blocks:
            return
        with self._lock:
            for key, block in blocks:
                free = self._free.setdefault(key, [])
                self._free.move_to_end(key)
                if len(free) < self._spare and self.kept_bytes + block.nbytes <= self._max_bytes:
                    free.append(block)
                    self.kept_bytes += block.nbytes
            while len(self._free) > MAX_SHAPES:
                _, dropped = self._free.popitem(last=False)
                self.kept_bytes -= sum(block.nbytes for block in dropped)

    def _take(self, key: _Key) -> Array | None:
        with self._lock:
            free = self._free.get(key)
            if not free:
                return None
            block = free.pop()
            self.kept_bytes -= block.nbytes
            return block

"""Answers that were given before, kept for requests with the same inputs.

Shapes: as in the request, B rows of each input and output.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from mnserve.codec.decoding import InferenceWork

__all__ = ["ModelResponses", "ResponseCache", "key_of"]

Array = np.ndarray[Any, Any]


class ResponseCache:
    """Answers of all models, bounded in bytes; those that were asked for least lately go first.

    Args:
        max_bytes: Of the outputs that are kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[tuple[ModelResponses, bytes], list[Array]] = OrderedDict()
        self.nbytes = 0
        """Bytes of the outputs that are kept now."""

    def __len__(self) -> int:
        return len(self._entries)

    def _find(self, owner: ModelResponses, key: bytes) -> list[Array] | None:
        found = self._entries.get((owner, key))
        if found is not None:
            self._entries.move_to_end((owner, key))
        return found

    def _keep(self, owner: ModelResponses, key: bytes, arrays: list[Array]) -> None:
        size = _nbytes(arrays)
        if size > self._max_bytes or (owner, key) in self._entries:
            return
        # Copies: what came is a view of a whole batch's outputs.
        self._entries[owner, key] = [_frozen(array) for array in arrays]
        self.nbytes += size
        while self.nbytes > self._max_bytes:
            self.nbytes -= _nbytes(self._entries.popitem(last=False)[1])

    def _drop(self, owner: ModelResponses) -> None:
        for entry in [entry for entry in self._entries if entry[0] is owner]:
            self.nbytes -= _nbytes(self._entries.pop(entry))


class ModelResponses:
    """The part of the cache that belongs to one loaded version of a model: loaded again, it begins anew.

    Args:
        cache: Has the room.
    """

    def __init__(self, cache: ResponseCache) -> None:
        self._cache = cache
        self._gone = False

    def find(self, key: bytes) -> list[Array] | None:
        """The outputs of an equal request, in the order asked for; None where there was none."""
        return self._cache._find(self, key)

    def keep(self, key: bytes, arrays: list[Array]) -> None:
        """Keeps the outputs of a request, if there is room, and the model was not dropped while it was answered."""
        if not self._gone:
            self._cache._keep(self, key, arrays)

    def drop(self) -> None:
        """Forgets all of them for good."""
        self._gone = True
        self._cache._drop(self)


def key_of(work: InferenceWork) -> bytes:
    """What tells two requests to one model apart: inputs to the last bit, and the outputs wanted in their order."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(work.outputs).encode())
    for name, array in work.feeds.items():
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        if array.dtype == object:
            for item in array.flat:
                text = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogatepass")
                digest.update(len(text).to_bytes(8, "little"))
                digest.update(text)
        else:
            digest.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return digest.digest()


def _frozen(array: Array) -> Array:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def _nbytes(arrays: list[Array]) -> int:
    return sum(
        array.nbytes + (sum(len(item) for item in array.flat) if array.dtype == object else 0) for array in arrays
    )

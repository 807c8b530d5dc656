"""Cache of answers, for requests with the same inputs.

Shapes are those of the request, with B rows of each input and output.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, Final

import numpy as np
from cachetools import LRUCache

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.request import Reply
from mnserve.execution.results import InferenceResult

Array = np.ndarray[Any, Any]

ENTRY_BYTES: Final = 420
"""Memory of an entry beside its arrays: its key and its place in the table."""
_EMPTY_ARRAY_BYTES: Final = 160
"""Memory of an array beside its elements: the object, its shape and strides."""


class ResponseCache:
    """Answers of all models, bounded in bytes; the least recently used ones are dropped first.

    Args:
        max_bytes: Most bytes of memory that the cached outputs take, with all that is kept for each.
    """

    def __init__(self, max_bytes: int) -> None:
        self._entries: LRUCache[tuple[ModelResponses, bytes], list[Array]] = LRUCache(max_bytes, entry_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the cached outputs take."""
        return int(self._entries.currsize)

    def __len__(self) -> int:
        return len(self._entries)

    def _find(self, owner: ModelResponses, key: bytes) -> list[Array] | None:
        return self._entries.get((owner, key))

    def _keep(self, owner: ModelResponses, key: bytes, arrays: list[Array]) -> None:
        if entry_bytes(arrays) <= self._entries.maxsize and (owner, key) not in self._entries:
            # Copies, since the arrays are views of the outputs of a whole batch.
            self._entries[owner, key] = [_read_only_copy(array) for array in arrays]

    def _drop(self, owner: ModelResponses) -> None:
        for entry in [entry for entry in self._entries if entry[0] is owner]:
            del self._entries[entry]


class ModelResponses:
    """Part of the cache that belongs to one loaded version of a model; a reload starts with an empty part.

    Args:
        cache: Cache of all models.
    """

    def __init__(self, cache: ResponseCache) -> None:
        self._cache = cache
        self._dropped = False

    def find(self, key: bytes) -> list[Array] | None:
        """Returns the outputs of an equal request, in the requested order; None without one."""
        return self._cache._find(self, key)

    def keep(self, key: bytes, arrays: list[Array]) -> None:
        """Stores the outputs of a request, if they fit and the model was not dropped meanwhile."""
        if not self._dropped:
            self._cache._keep(self, key, arrays)

    def drop(self) -> None:
        """Deletes all answers of the model, and stores no others."""
        self._dropped = True
        self._cache._drop(self)


class KeepingReply:
    """Passes the outcome of a request on, and keeps the answer.

    Args:
        reply: Where the outcome goes.
        responses: Kept answers of the model.
        key: Key of the request.
        lookup_ns: Time spent looking for a kept answer.
    """

    __slots__ = ("_key", "_lookup_ns", "_reply", "_responses", "done", "set_exception")

    def __init__(self, reply: Reply, responses: ModelResponses, key: bytes, lookup_ns: int) -> None:
        self._reply = reply
        self._responses = responses
        self._key = key
        self._lookup_ns = lookup_ns
        self.done = reply.done
        self.set_exception = reply.set_exception

    def set_result(self, result: InferenceResult, /) -> None:
        """Takes the outputs."""
        self._responses.keep(self._key, result.arrays)
        self._reply.set_result(result._replace(lookup_ns=self._lookup_ns))


def response_key(work: InferenceWork) -> bytes:
    """Returns the cache key of a request: a digest of its inputs to the last bit, and of its outputs in their order."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(work.outputs).encode())
    for name, array in work.feeds.items():
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        if array.dtype == object:
            for element in array.flat:
                text = element if isinstance(element, bytes) else str(element).encode("utf-8", "surrogatepass")
                digest.update(len(text).to_bytes(8, "little"))
                digest.update(text)
        else:
            digest.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return digest.digest()


def _read_only_copy(array: Array) -> Array:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def entry_bytes(arrays: list[Array]) -> int:
    """Counts the memory of an entry: small answers take many times the bytes of their elements."""
    return ENTRY_BYTES + sum([_array_bytes(array) for array in arrays])


def _array_bytes(array: Array) -> int:
    texts = sum(map(sys.getsizeof, array.flat)) if array.dtype == object else 0
    return _EMPTY_ARRAY_BYTES + array.nbytes + texts

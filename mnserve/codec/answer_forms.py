"""Answers as bytes: what equal answers have in common is encoded once, and only contents and ids are put in.

The bytes are those that protobuf would write for the same message.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from mnserve.codec.signature import RequestSignature
from mnserve.codec.wire_format import varint
from mnserve.protocol import service_pb2 as pb

Array = np.ndarray[Any, Any]

MAX_FORMS: Final = 1024
_ID_TAG: Final = b"\x1a"
_RAW_TAG: Final = b"\x32"
"""Tags of ``id``, field 3, and of ``raw_output_contents``, field 6."""


class AnswerForms:
    """Answers of one version of a model, without their ids and contents.

    Args:
        signature: Signature of the model.
        version: The version.
    """

    def __init__(self, signature: RequestSignature, version: int) -> None:
        self._signature = signature
        self._head = pb.ModelInferResponse(model_name=signature.model, model_version=str(version)).SerializeToString()
        self._outputs: dict[Hashable, tuple[bytes, tuple[bytes, ...], tuple[np.dtype[Any], ...], int]] = {}

    def encode(self, request_id: str, names: tuple[str, ...], arrays: Sequence[Array], max_bytes: int) -> bytes | None:
        """Encodes an answer of numbers.

        Args:
            request_id: Id that the request brought.
            names: Outputs, in the order of the answer.
            arrays: Their contents.
            max_bytes: Largest answer.

        Returns:
            The message; None for one with strings, or one that is too large.
        """
        key = (names, *[array.shape for array in arrays])
        form = self._outputs.get(key)
        if form is None:
            if any(self._signature.output_rules[name].datatype.is_bytes for name in names):
                return None
            form = self._learn(key, names, arrays)
        outputs, marks, dtypes, size = form
        parts = [self._head]
        if request_id:
            text = request_id.encode()
            parts += (_ID_TAG, varint(len(text)), text)
            size += len(text) + 6
        if size > max_bytes:
            return None
        parts.append(outputs)
        for mark, array, dtype in zip(marks, arrays, dtypes, strict=True):
            parts += (mark, (array if array.dtype == dtype else array.astype(dtype)).tobytes())
        return b"".join(parts)

    def _learn(
        self, key: Hashable, names: tuple[str, ...], arrays: Sequence[Array]
    ) -> tuple[bytes, tuple[bytes, ...], tuple[np.dtype[Any], ...], int]:
        message, marks, dtypes = pb.ModelInferResponse(), [], []
        contents = 0
        for name, array in zip(names, arrays, strict=True):
            datatype = self._signature.output_rules[name].datatype
            message.outputs.add(name=name, datatype=datatype.name, shape=array.shape)
            nbytes = array.size * datatype.dtype.itemsize
            marks.append(_RAW_TAG + varint(nbytes))
            dtypes.append(datatype.dtype)
            contents += nbytes
        outputs = message.SerializeToString()
        size = len(self._head) + len(outputs) + sum(map(len, marks)) + contents
        if len(self._outputs) >= MAX_FORMS:
            self._outputs.clear()
        form = outputs, tuple(marks), tuple(dtypes), size
        self._outputs[key] = form
        return form

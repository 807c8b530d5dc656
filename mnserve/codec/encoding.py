"""Encoding of answers: arrays become a message, within its limit of size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from mnserve.codec.classification import classified
from mnserve.codec.datatypes import DATATYPES, Datatype
from mnserve.codec.shared_memory import Regions, Slice
from mnserve.codec.shared_tensors import BYTE_SIZE, OFFSET, REGION
from mnserve.codec.signature import RequestSignature
from mnserve.codec.tensors import INLINE_BYTES, array_to_raw
from mnserve.errors import AnswerTooLargeError
from mnserve.protocol import service_pb2 as pb

Array = np.ndarray[Any, Any]

_TEXT: Final = DATATYPES["BYTES"]
_CLASSIFIED_BYTES: Final = 2**14
"""Scores up to this size are sorted on the event loop."""
_ENVELOPE_BYTES: Final = 65_536
"""Upper bound of the bytes of an answer beside its contents and its id."""


def encode_response(
    *,
    signature: RequestSignature,
    version: int,
    request_id: str,
    names: Sequence[str],
    arrays: Sequence[Array],
    max_bytes: int | None = None,
    targets: Mapping[str, Slice] | None = None,
    regions: Regions | None = None,
    classes: Mapping[str, int] | None = None,
) -> pb.ModelInferResponse:
    """Puts arrays into an answer, always as raw contents, or into shared memory.

    Args:
        signature: The model's signature.
        version: Version that answers.
        request_id: Id that the request brought.
        names: Outputs, in the order of the answer.
        arrays: Their contents.
        max_bytes: Largest message that may leave; None for no limit.
        targets: Outputs that go into shared memory, and where.
        regions: The shared memory.
        classes: Outputs that are answered with their highest classes, and how many of those; None for none.

    Raises:
        InvalidRequestError: An output does not fit into its place in shared memory, or is too large to be classified.
        AnswerTooLargeError: The answer is larger than ``max_bytes``.
    """
    response = pb.ModelInferResponse(model_name=signature.model, model_version=str(version), id=request_id)
    rules = signature.output_rules
    size = len(request_id.encode("utf-8"))
    for name, array in zip(names, arrays, strict=True):
        datatype = rules[name].datatype
        if classes is not None and name in classes:
            array, datatype = _best(array, classes[name], datatype, name, signature), _TEXT
        output = response.outputs.add(name=name, datatype=datatype.name, shape=array.shape)
        if targets and regions is not None and name in targets:
            _write_shared(output, array_to_raw(array, datatype), targets[name], regions, signature)
            response.raw_output_contents.append(b"")  # clients count through them
            continue
        if not datatype.is_bytes:
            _check_size(size + array.size * datatype.dtype.itemsize, max_bytes, signature)
        raw = array_to_raw(array, datatype)
        size += len(raw)
        _check_size(size, max_bytes, signature)
        response.raw_output_contents.append(raw)
    if max_bytes is not None and size + _ENVELOPE_BYTES > max_bytes:  # the exact size costs a copy
        _check_size(response.ByteSize(), max_bytes, signature)
    return response


def _best(array: Array, count: int, datatype: Datatype, name: str, signature: RequestSignature) -> Array:
    return classified(
        array,
        count,
        datatype,
        labels=signature.labels.get(name, ()),
        batched=signature.max_batch_size > 0,
        what=f"model '{signature.model}': output '{name}'",
    )


def _write_shared(
    output: pb.ModelInferResponse.InferOutputTensor,
    raw: bytes,
    target: Slice,
    regions: Regions,
    signature: RequestSignature,
) -> None:
    regions.write(target, raw, f"model '{signature.model}': output '{output.name}'")
    output.parameters[REGION].string_param = target.region
    output.parameters[BYTE_SIZE].int64_param = len(raw)
    if target.offset:
        output.parameters[OFFSET].int64_param = target.offset


def is_large(arrays: Sequence[Array], classes: Mapping[str, int] | None = None) -> bool:
    """Finds if encoding takes more than about a millisecond. Strings count as large: their sizes are not known."""
    limit = INLINE_BYTES if classes is None else _CLASSIFIED_BYTES
    return any(array.dtype == object for array in arrays) or sum(array.nbytes for array in arrays) > limit


def _check_size(size: int, max_bytes: int | None, signature: RequestSignature) -> None:
    if max_bytes is not None and size > max_bytes:
        raise AnswerTooLargeError(
            f"model '{signature.model}': the answer has at least {size} bytes, more than the limit of {max_bytes} for "
            "one message; ask for fewer rows or outputs, or start the server with a larger --max-message-bytes"
        )

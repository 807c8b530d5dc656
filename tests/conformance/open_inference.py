"""Requests and answers of the Open Inference Protocol as they are on the wire.

No client library stands in between: it could refuse, mend or hide something.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb

Array = np.ndarray[Any, Any]

PUSHBACK = "grpc-retry-pushback-ms"
DTYPES = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Tensor(NamedTuple):
    """One tensor of a request.

    Attributes:
        datatype: Name in the protocol.
        shape: As the request has it, right or wrong.
        raw: Its raw contents; None to leave them out.
        contents: Typed contents: field -> values.
    """

    datatype: str
    shape: Sequence[int]
    raw: bytes | None = None
    contents: Mapping[str, Sequence[Any]] = {}


def numbers(array: Array) -> Tensor:
    """An array as raw contents."""
    return Tensor(_NAMES[array.dtype], array.shape, array.tobytes())


def bfloat16(array: Array) -> Tensor:
    """An array as BF16: the top two bytes of every float32."""
    halves = array.astype("<f4").view("<u2").reshape(*array.shape, 2)[..., 1]
    return Tensor("BF16", array.shape, halves.tobytes())


def texts(items: Sequence[bytes], shape: Sequence[int]) -> Tensor:
    """BYTES as raw contents: length and bytes of every element."""
    return Tensor("BYTES", shape, b"".join(struct.pack("<I", len(item)) + item for item in items))


def rows(*values: float) -> Array:
    """(B, 4) float32, a row of each value."""
    return np.repeat(np.array(values, dtype="<f4")[:, None], 4, axis=1)


def request(model: str, tensors: Mapping[str, Tensor | Array] | None = None, **fields: Any) -> Any:
    """A request for a model.

    Args:
        model: Its name.
        tensors: Its inputs; one row for ``double`` by default.
        fields: Further fields of the message; ``outputs`` are names, ``parameters`` numbers, flags or text.
    """
    outputs, parameters = fields.pop("outputs", ()), fields.pop("parameters", {})
    message = pb.ModelInferRequest(model_name=model, **fields)
    for name, item in ({"x": rows(1)} if tensors is None else tensors).items():
        add(message, name, item)
    for name in outputs:
        message.outputs.add(name=name)
    for key, value in parameters.items():
        kinds = {bool: "bool_param", int: "int64_param", str: "string_param"}
        setattr(message.parameters[key], kinds[type(value)], value)
    return message


def add(message: Any, name: str, item: Tensor | Array) -> None:
    """Puts one more input into a request."""
    tensor = numbers(item) if isinstance(item, np.ndarray) else item
    entry = message.inputs.add(name=name, datatype=tensor.datatype, shape=tensor.shape)
    for field, values in tensor.contents.items():
        getattr(entry.contents, field).extend(values)
    if tensor.raw is not None:
        message.raw_input_contents.append(tensor.raw)


def outputs_of(response: Any) -> dict[str, Array]:
    """Outputs as arrays, which have to be in ``raw_output_contents``; BYTES are objects, BF16 the bits."""
    assert len(response.raw_output_contents) == len(response.outputs)
    found = {}
    for entry, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        assert not entry.HasField("contents")
        if entry.datatype == "BYTES":
            found[entry.name] = np.array(_elements(raw), dtype=object).reshape(entry.shape)
        else:
            dtype = DTYPES.get(entry.datatype, np.dtype("<u2"))
            found[entry.name] = np.frombuffer(raw, dtype).reshape(entry.shape)
    return found


def _elements(raw: bytes) -> list[bytes]:
    items = []
    while raw:
        (length,) = struct.unpack_from("<I", raw)
        items.append(raw[4 : 4 + length])
        raw = raw[4 + length :]
    return items


class Refusal:
    """Error of a call that was not answered."""

    error: Any = None

    @property
    def message(self) -> str:
        """Details of the status, as the caller reads them."""
        return str(self.error.details())

    @property
    def pushback(self) -> str | None:
        """Milliseconds after which the caller may try again; None where the server gives none."""
        return trailing(self.error).get(PUSHBACK)


def trailing(error: Any) -> dict[str, Any]:
    """Metadata that came with the end of a call."""
    return {item[0]: item[1] for item in error.trailing_metadata() or ()}


@contextmanager
def refused(code: str, *words: str) -> Iterator[Refusal]:
    """The call inside has to end with this status and a message that has these words."""
    refusal = Refusal()
    try:
        yield refusal
    except grpc.RpcError as error:
        refusal.error = error
    assert refusal.error is not None, f"it was answered, expected {code}"
    assert refusal.error.code().name == code, refusal.message
    missing = [word for word in words if word not in refusal.message]
    assert not missing, f"{missing} not in: {refusal.message}"


def arrived(stub: Any) -> None:
    """Returns once what was sent on this connection before has reached its model, as far as one can tell from here."""
    for _ in range(3):
        stub.ServerLive(pb.ServerLiveRequest(), timeout=30)
    time.sleep(0.1)

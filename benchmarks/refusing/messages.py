"""Messages of some 62 MiB that are refused, or that hold nothing up, as they are on the wire."""

from collections.abc import Callable, Mapping

from mnserve.protocol import service_pb2 as pb

SIZE = 62 * 2**20
"""Bytes of what makes a message large; a server takes 64 MiB in all."""
_PARAMETERS = 5_000_000
_EMPTY_STRING = b"\x42\x00"  # field 8 of contents
_PACKED_INT64 = 3
_CONTENTS = 5
_INPUTS = 5


def _field(number: int, data: bytes) -> bytes:
    """Write a field that holds bytes."""
    head, length = bytearray([number << 3 | 2]), len(data)
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*head, length]) + data


def tensor(model: str, raw: bytes, shape: tuple[int, ...] = (1, 8)) -> pb.ModelInferRequest:
    """Make a request with one tensor of raw bytes."""
    request = pb.ModelInferRequest(model_name=model)
    request.inputs.add(name="x", datatype="FP32", shape=shape)
    request.raw_input_contents.append(raw)
    return request


def _with_contents(contents: bytes) -> bytes:
    named = pb.ModelInferRequest(model_name="twice").SerializeToString()
    return named + _field(_INPUTS, _field(_CONTENTS, contents))


def _parameters() -> bytes:
    named = pb.ModelInferRequest(model_name="twice").SerializeToString()
    return named + b"".join(b"\x22\x09\x0a\x07%07x" % number for number in range(_PARAMETERS))


KINDS: Mapping[str, Callable[[], bytes]] = {
    "32 million empty strings": lambda: _with_contents(_EMPTY_STRING * (SIZE // 2)),
    "62 million packed integers": lambda: _with_contents(_field(_PACKED_INT64, bytes(SIZE))),
    "5 million parameters": _parameters,
    "wrong size": lambda: tensor("twice", bytes(SIZE)).SerializeToString(),
    "unknown model": lambda: tensor("none", bytes(SIZE)).SerializeToString(),
    "no message": lambda: tensor("twice", bytes(SIZE)).SerializeToString() + b"\xff",
}
"""What is wrong -> the message."""
MANY_STRINGS = _with_contents(_EMPTY_STRING * 2**20)
"""As many strings as one tensor may have, and no shape for them."""

"""Requests of gRPC as bodies of HTTP: JSON, with or without binary tensors behind it."""

import json
import math
from typing import Any, Final

import numpy as np

from fuzzing.dice import Dice, pick
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.tensors import contents_to_array, raw_to_array
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

Request = pb.ModelInferRequest

_SCRAPS: Final = (b"{", b"}", b"[", b"]", b",", b'"', b"null", b"1e999", b"-", b"\\ud800", b"\x00", b"\xff", b"true")
_BINARY_ONLY: Final = ("FP16", "BF16")


def body_of(request: Request, dice: Dice) -> tuple[bytes, int | None]:
    """Write a request as a client of HTTP would.

    Returns:
        The body, and the length of its JSON; None for a body without binary tensors.
    """
    raw = list(request.raw_input_contents)
    inputs, behind = [], b""
    for tensor in request.inputs:
        item: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        parameters = _parameters(tensor.parameters)
        if "shared_memory_region" not in parameters:
            content = raw.pop(0) if raw else None
            data = None if dice.integer(0, 1) else _data(tensor, content)
            if data is not None:
                item["data"] = data
            elif content is not None:
                parameters["binary_data_size"] = len(content)
                behind += content
        inputs.append({**item, "parameters": parameters} if parameters else item)
    outputs = [{"name": output.name, "parameters": _parameters(output.parameters)} for output in request.outputs]
    written = {
        "id": request.id,
        "parameters": {**_parameters(request.parameters), "binary_data_output": bool(dice.integer(0, 1))},
        "inputs": inputs,
        "outputs": outputs,
    }
    text = json.dumps(written, ensure_ascii=bool(dice.integer(0, 1))).encode("utf-8", "surrogatepass")
    return text + behind, len(text) if behind else None


def _data(tensor: Any, content: bytes | None) -> Any:
    """Elements of a tensor for JSON; None where they have to travel as a binary tensor."""
    datatype, shape = DATATYPES.get(tensor.datatype), list(tensor.shape)
    if datatype is None or tensor.datatype in _BINARY_ONLY or any(size < 0 for size in shape):
        return None
    if math.prod(size for size in shape if size) > 2**16:  # a list of nothing may have any length
        return None
    array: Any
    try:
        if content is None:
            array = contents_to_array(tensor.contents, datatype, shape, "x")
        else:
            array = raw_to_array(content, datatype, shape, "x")
    except InvalidRequestError:
        return None
    if datatype.is_bytes:
        try:
            array = np.frompyfunc(bytes.decode, 1, 1)(array) if array.size else array
        except UnicodeDecodeError:
            return None
    if datatype.floating and not np.isfinite(array).all():
        return None
    return np.asarray(array).tolist()


def _parameters(parameters: Any) -> dict[str, Any]:
    found = {}
    for name, value in parameters.items():
        kind = value.WhichOneof("parameter_choice")
        if kind is not None:
            number = getattr(value, kind)
            found[name] = 0.5 if isinstance(number, float) and not math.isfinite(number) else number
    return found


def damaged(body: bytes, dice: Dice) -> bytes:
    """Change a few bytes of a body."""
    changed = bytearray(body)
    for _ in range(dice.integer(1, 3)):
        position = dice.integer(0, len(changed))
        what = dice.integer(0, 3)
        if what == 0:
            changed[position:position] = pick(dice, _SCRAPS)
        elif what == 1:
            del changed[position : position + dice.integer(1, 8)]
        elif what == 2 and position < len(changed):
            changed[position] = dice.integer(0, 255)
        else:
            changed[position:position] = dice.data(8)
    return bytes(changed)

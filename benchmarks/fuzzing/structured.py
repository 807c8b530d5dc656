"""Make requests that keep nearly every rule of a model, so that the broken rule is found late.

A fuzzer without bytes chooses the lowest value of everything, which is always a right one.
"""

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from fuzzing.dice import Dice, pick
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.protocol import service_pb2 as pb

Request = pb.ModelInferRequest

_FIELDS: Final = tuple(field.name for field in pb.InferTensorContents.DESCRIPTOR.fields)
_NAMES: Final = ("a", "b", "c", "z", "", "x" * 300)
_REGIONS: Final = ("region", "shrunk", "gone", "")
_SIZES: Final = (0, 1, 2, 3, 7, -1, 2**31, 2**62, -(2**63), 2**63 - 1)
_RARE: Final = 11
"""A certain fault comes once in so many requests."""


def valid(signature: RequestSignature, dice: Dice) -> Request:
    """Make a request that keeps every rule, but for numbers that are not finite and a BOOL other than 0 and 1."""
    return _request(signature, dice, dice.integer(1, max(1, signature.max_batch_size)), 1)


def nearly_valid(signature: RequestSignature, dice: Dice) -> Request:
    """Make a request with any number of faults, often none."""
    if dice.integer(0, 5) < 5:
        request = valid(signature, dice)
    else:  # sizes that agree with one another, and may exceed or fall short of the model's
        request = _request(signature, dice, dice.integer(0, signature.max_batch_size + 1), 0)
    for change in _CHANGES:
        if dice.integer(0, _RARE) == _RARE:
            change(request, dice)
    return request


def _request(signature: RequestSignature, dice: Dice, rows: int, minimum: int) -> Request:
    """Make a request of ``rows`` rows whose open dimensions are at least ``minimum``."""
    request = Request(model_name=signature.model, id="id")
    typed = dice.integer(0, 3) == 3 and all(rule.datatype.contents for rule in signature.inputs)
    order = list(signature.inputs)
    if dice.integer(0, 1):
        order.reverse()
    for rule in order:
        shape = [size if size >= 0 else dice.integer(minimum, 3) for size in signature.full_shape(rule)]
        if signature.max_batch_size > 0:
            shape[0] = rows
        tensor = request.inputs.add(name=rule.name, datatype=rule.datatype.name, shape=shape)
        count = math.prod(shape)
        if typed:
            _fill(tensor.contents, rule, count, dice)
        else:
            request.raw_input_contents.append(_raw(rule, count, dice))
    return request


def _raw(rule: TensorRule, count: int, dice: Dice) -> bytes:
    if rule.datatype.is_bytes:
        items = [dice.data(dice.integer(0, 5)) for _ in range(count)]
        return b"".join(struct.pack("<I", len(item)) + item for item in items)
    size = count * rule.datatype.dtype.itemsize
    return dice.data(size).ljust(size, b"\0")


def _fill(contents: pb.InferTensorContents, rule: TensorRule, count: int, dice: Dice) -> None:
    field = getattr(contents, rule.datatype.contents or "")
    if rule.datatype.is_bytes:
        field.extend(dice.data(dice.integer(0, 5)) for _ in range(count))
    elif rule.datatype.floating:
        field.extend(dice.integer(-5, 5) / 2 for _ in range(count))
    else:
        field.extend(dice.integer(0, 1) for _ in range(count))
    contents.SetInParent()


# Faults ---------------------------------------------------------------------------------------------------------------


def _rename(request: Request, dice: Dice) -> None:
    if request.inputs:
        pick(dice, request.inputs).name = pick(dice, _NAMES)


def _retype(request: Request, dice: Dice) -> None:
    if request.inputs:
        pick(dice, request.inputs).datatype = pick(dice, ("FP32", "BYTES", "BF16", "INT32", "fp32", "", "x" * 300))


def _reshape(request: Request, dice: Dice) -> None:
    if not request.inputs:
        return
    shape = pick(dice, request.inputs).shape
    what = dice.integer(0, 2)
    if what == 0 or not shape:
        shape.append(pick(dice, _SIZES))
    elif what == 1:
        shape[dice.integer(0, len(shape) - 1)] = pick(dice, _SIZES)
    else:
        del shape[-1]


def _drop_input(request: Request, dice: Dice) -> None:
    if request.inputs:
        del request.inputs[dice.integer(0, len(request.inputs) - 1)]


def _repeat_input(request: Request, dice: Dice) -> None:
    if request.inputs:
        request.inputs.add().CopyFrom(pick(dice, request.inputs))


def _change_raw(request: Request, dice: Dice) -> None:
    raw = request.raw_input_contents
    what = dice.integer(0, 3)
    if what == 0 or not raw:
        raw.append(dice.data(8))
    elif what == 1:
        del raw[dice.integer(0, len(raw) - 1)]
    else:
        index = dice.integer(0, len(raw) - 1)
        raw[index] = raw[index][: dice.integer(0, len(raw[index]))] + dice.data(9)


def _add_typed(request: Request, dice: Dice) -> None:
    """Add typed contents beside others, of another field, too many, or out of their range."""
    if not request.inputs:
        return
    contents, field = pick(dice, request.inputs).contents, pick(dice, _FIELDS)
    value: Any = pick(dice, (0, 1, 300, 2**31 - 1))
    value = {"bytes_contents": b"x", "bool_contents": True}.get(field, value)
    if field == "int_contents" and dice.integer(0, 1):
        value = -(2**31)
    if field in ("fp32_contents", "fp64_contents"):
        value = pick(dice, (math.nan, math.inf, 1e300, 0.5))
    if dice.integer(0, 1) and len(getattr(contents, field)):
        getattr(contents, field)[0] = value
    else:
        getattr(contents, field).append(value)


def _ask_outputs(request: Request, dice: Dice) -> None:
    for _ in range(dice.integer(1, 3)):
        request.outputs.add(name=pick(dice, _NAMES))


def _classify(request: Request, dice: Dice) -> None:
    _parameter(request.outputs.add(name="a").parameters["classification"], dice)


def _parameters(request: Request, dice: Dice) -> None:
    names = ("priority", "timeout", "sequence_id", "triton_enable_empty_final_response", "x" * 300)
    for _ in range(dice.integer(1, 3)):
        _parameter(request.parameters[pick(dice, names)], dice)


def _share_input(request: Request, dice: Dice) -> None:
    """Move an input into shared memory; its raw contents are removed, or left by mistake."""
    if not request.inputs:
        return
    index = dice.integer(0, len(request.inputs) - 1)
    _share(request.inputs[index].parameters, dice)
    if index < len(request.raw_input_contents) and dice.integer(0, 5) < 5:
        raw = request.raw_input_contents[index]
        request.inputs[index].parameters["shared_memory_byte_size"].int64_param = len(raw)
        del request.raw_input_contents[index]


def _share_output(request: Request, dice: Dice) -> None:
    _share(request.outputs.add(name=pick(dice, ("a", "b"))).parameters, dice)


def _share(parameters: Any, dice: Dice) -> None:
    parameters["shared_memory_region"].string_param = pick(dice, _REGIONS) if dice.integer(0, 3) == 3 else "region"
    parameters["shared_memory_byte_size"].int64_param = pick(dice, (64, 8, 24, 0, 4096, 4097, -1, 2**63 - 1))
    if dice.integer(0, 1):
        parameters["shared_memory_offset"].int64_param = pick(dice, (8, 0, 4095, 4096, -1, 2**63 - 1))
    if dice.integer(0, 7) == 7:
        names = ("shared_memory_region", "shared_memory_offset", "shared_memory_byte_size")
        _parameter(parameters[pick(dice, names)], dice)


def _parameter(parameter: pb.InferParameter, dice: Dice) -> None:
    what = dice.integer(0, 5)
    if what == 0:
        parameter.int64_param = pick(dice, (1, 0, 3, -1, 4, 2**63 - 1, -(2**63)))
    elif what == 1:
        parameter.uint64_param = pick(dice, (1, 0, 2, 2**64 - 1))
    elif what == 2:
        parameter.string_param = pick(dice, (*_REGIONS, "x" * 300))
    elif what == 3:
        parameter.bool_param = True
    elif what == 4:
        parameter.double_param = math.nan
    else:
        parameter.ClearField("string_param")  # a parameter without a value


_CHANGES: Final[tuple[Callable[[Request, Dice], None], ...]] = (
    _share_input,
    _share_output,
    _parameters,
    _ask_outputs,
    _change_raw,
    _reshape,
    _add_typed,
    _rename,
    _retype,
    _drop_input,
    _repeat_input,
    _classify,
)

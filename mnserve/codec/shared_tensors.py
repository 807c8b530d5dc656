"""Tensors of a request in shared memory, and the parameters that say where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from mnserve.codec.shared_memory import Regions, Slice
from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.protocol import service_pb2 as pb

REGION: Final = "shared_memory_region"
OFFSET: Final = "shared_memory_offset"
BYTE_SIZE: Final = "shared_memory_byte_size"
_Tensor: TypeAlias = pb.ModelInferRequest.InferInputTensor | pb.ModelInferRequest.InferRequestedOutputTensor


def slices(tensors: Iterable[_Tensor], kind: str, model: str, regions: Regions | None) -> dict[str, Slice]:
    """Finds the tensors in shared memory, by name, with the slice of each, which lies within its region.

    Args:
        tensors: Inputs of a request, or outputs that it asks for.
        kind: ``input`` or ``output``, for messages.
        model: Name of the model, for messages.
        regions: Shared memory that callers have registered; None where there is none.

    Raises:
        UnsupportedError: There is none.
        InvalidRequestError: A parameter is missing or of another type, or a slice lies in no region.
    """
    slices_by_name = {}
    for tensor in tensors:
        parameters = tensor.parameters
        if not parameters or not any(name in parameters for name in (REGION, OFFSET, BYTE_SIZE)):
            continue
        what = f"model '{model}': {kind} '{tensor.name[:64]}'"
        if regions is None:
            raise UnsupportedError(f"{what} is in shared memory, which this server does not offer; send it as it is")
        slices_by_name[tensor.name] = tensor_slice = _slice(parameters, what)
        regions.check(tensor_slice, what)
    return slices_by_name


def _slice(parameters: Mapping[str, Any], what: str) -> Slice:
    region = parameters[REGION].string_param if REGION in parameters else ""
    if not region:
        raise InvalidRequestError(f"{what} has parameters of shared memory, but no {REGION} as string_param; name one")
    return Slice(
        region=region,
        offset=_number(parameters, OFFSET, what) if OFFSET in parameters else 0,
        byte_size=_number(parameters, BYTE_SIZE, what),
    )


def _number(parameters: Mapping[str, Any], name: str, what: str) -> int:
    kind = parameters[name].WhichOneof("parameter_choice") if name in parameters else None
    if kind not in ("int64_param", "uint64_param"):
        raise InvalidRequestError(f"{what}: parameter '{name}' comes as {kind or 'nothing'}, expected int64_param")
    value: int = getattr(parameters[name], kind)
    if value < 0:
        raise InvalidRequestError(f"{what}: parameter '{name}' is {value}, expected 0 or more")
    return value

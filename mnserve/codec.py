"""Inference requests and responses <-> arrays: the rules of the protocol, as pure functions.

Shapes: B rows of the batch; a model with ``max_batch_size`` 0 has no batch dimension and its requests count as one
row. Every fault of a request is an InvalidRequestError (or UnsupportedError) that names what came and what was
expected; nothing that passes here is refused later for its form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from mnserve.datatypes import Datatype
from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.protocol import service_pb2 as pb
from mnserve.tensors import array_to_raw, contents_to_array, first_non_finite, raw_to_array

__all__ = ["DecodedRequest", "Signature", "TensorRule", "decode_request", "encode_response"]

Array = np.ndarray[Any, Any]

_SHARED_MEMORY: Final = ("shared_memory_region", "shared_memory_offset", "shared_memory_byte_size")


@dataclass(frozen=True, kw_only=True)
class TensorRule:
    """What one input or output looks like.

    Attributes:
        name: Name in the protocol.
        datatype: Element type.
        dims: Sizes without the batch dimension; -1 is any size.
    """

    name: str
    datatype: Datatype
    dims: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What requests to a model have to look like.

    Attributes:
        model: Name of the model, for messages.
        max_batch_size: Most rows in one request; 0 for a model without a batch dimension.
        inputs: Inputs, all of them required.
        outputs: Outputs on offer.
        allow_non_finite: Let NaN and infinite inputs through.
    """

    model: str
    max_batch_size: int
    inputs: tuple[TensorRule, ...]
    outputs: tuple[TensorRule, ...]
    allow_non_finite: bool = False

    @cached_property
    def input_names(self) -> frozenset[str]:
        """Names of the inputs."""
        return frozenset(rule.name for rule in self.inputs)

    @cached_property
    def output_rules(self) -> Mapping[str, TensorRule]:
        """Outputs by name, in the model's order."""
        return {rule.name: rule for rule in self.outputs}

    def full_shape(self, rule: TensorRule) -> list[int]:
        """The shape clients see: ``dims``, behind -1 where the model has a batch dimension."""
        return [-1, *rule.dims] if self.max_batch_size > 0 else list(rule.dims)


@dataclass(frozen=True, kw_only=True)
class DecodedRequest:
    """A request that keeps every rule.

    Attributes:
        feeds: Arrays in the order of the model's inputs, (B, *dims) or (*dims); read-only views of the message.
        rows: B, or 1 for a model without a batch dimension.
        outputs: Outputs wanted, in the order of the answer.
    """

    feeds: Mapping[str, Array]
    rows: int
    outputs: tuple[str, ...]


def decode_request(request: pb.ModelInferRequest, signature: Signature) -> DecodedRequest:
    """Checks a request against the model's signature and takes its tensors out.

    Raises:
        InvalidRequestError: The request breaks a rule.
        UnsupportedError: It asks for shared memory, classification or sequences.
    """
    _refuse_parameters(request.parameters, ("sequence_id",), "the request")
    tensors = _by_name(request, signature)
    outputs = _requested_outputs(request, signature)
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequestError(
            f"model '{signature.model}': {len(raw)} raw_input_contents for {len(request.inputs)} inputs; send one for "
            "each input, or none"
        )
    feeds: dict[str, Array] = {}
    rows: int | None = None
    for rule in signature.inputs:
        position = tensors[rule.name]
        tensor = request.inputs[position]
        shape = _check_shape(tensor, rule, signature)
        if signature.max_batch_size > 0:
            if rows is not None and shape[0] != rows:
                raise InvalidRequestError(
                    f"model '{signature.model}': input '{rule.name}' has {shape[0]} rows, expected {rows} as in input "
                    f"'{signature.inputs[0].name}'"
                )
            rows = shape[0]
        what = f"model '{signature.model}': input '{rule.name}'"
        if raw:
            if tensor.HasField("contents"):
                raise InvalidRequestError(f"{what} has both contents and raw_input_contents; send one of them")
            array = raw_to_array(raw[position], rule.datatype, shape, what)
        else:
            array = contents_to_array(tensor.contents, rule.datatype, shape, what)
        if not signature.allow_non_finite:
            _refuse_non_finite(array, rule, what)
        feeds[rule.name] = array
    return DecodedRequest(feeds=feeds, rows=1 if rows is None else rows, outputs=outputs)


def encode_response(
    *,
    signature: Signature,
    version: int,
    request_id: str,
    names: Sequence[str],
    arrays: Sequence[Array],
) -> pb.ModelInferResponse:
    """Puts arrays into an answer, always as raw contents."""
    response = pb.ModelInferResponse(model_name=signature.model, model_version=str(version), id=request_id)
    rules = signature.output_rules
    for name, array in zip(names, arrays, strict=True):
        datatype = rules[name].datatype
        response.outputs.add(name=name, datatype=datatype.name, shape=array.shape)
        response.raw_output_contents.append(array_to_raw(array, datatype))
    return response


def _by_name(request: pb.ModelInferRequest, signature: Signature) -> dict[str, int]:
    """Input name -> position in the request, after checking that exactly the model's inputs are there."""
    positions: dict[str, int] = {}
    for position, tensor in enumerate(request.inputs):
        name = tensor.name
        if name in positions:
            raise InvalidRequestError(f"model '{signature.model}': input '{_short(name)}' is given twice")
        if name not in signature.input_names:
            raise InvalidRequestError(
                f"model '{signature.model}' has no input '{_short(name)}'; it has {_names(signature.inputs)}"
            )
        if tensor.parameters:
            _refuse_parameters(tensor.parameters, _SHARED_MEMORY, f"input '{name}'")
        positions[name] = position
    missing = [rule.name for rule in signature.inputs if rule.name not in positions]
    if missing:
        raise InvalidRequestError(
            f"model '{signature.model}': input {', '.join(map(repr, missing))} is missing; expected "
            f"{len(signature.inputs)} inputs ({_names(signature.inputs)}), got {len(positions)}"
        )
    return positions


def _requested_outputs(request: pb.ModelInferRequest, signature: Signature) -> tuple[str, ...]:
    rules = signature.output_rules
    if not request.outputs:
        return tuple(rules)
    wanted: dict[str, None] = {}
    for tensor in request.outputs:
        name = tensor.name
        if name in wanted:
            raise InvalidRequestError(f"model '{signature.model}': output '{_short(name)}' is requested twice")
        if name not in rules:
            raise InvalidRequestError(
                f"model '{signature.model}' has no output '{_short(name)}'; it has {_names(signature.outputs)}"
            )
        if tensor.parameters:
            _refuse_parameters(tensor.parameters, ("classification", *_SHARED_MEMORY), f"output '{name}'")
        wanted[name] = None
    return tuple(wanted)


def _check_shape(tensor: pb.ModelInferRequest.InferInputTensor, rule: TensorRule, signature: Signature) -> list[int]:
    what = f"model '{signature.model}': input '{rule.name}'"
    if tensor.datatype != rule.datatype.name:
        raise InvalidRequestError(f"{what} has datatype '{_short(tensor.datatype)}', expected {rule.datatype.name}")
    expected = signature.full_shape(rule)
    if len(tensor.shape) != len(expected):
        got = f"{list(tensor.shape[:8])}{' and more' if len(tensor.shape) > 8 else ''}"
        raise InvalidRequestError(
            f"{what} has shape {got} with {len(tensor.shape)} dimensions, expected {expected} with {len(expected)}"
        )
    shape = list(tensor.shape)
    if any(size < 0 for size in shape):
        raise InvalidRequestError(f"{what} has shape {shape} with a negative size, expected {expected}")
    if any(size not in (-1, given) for size, given in zip(expected, shape, strict=True)):
        raise InvalidRequestError(f"{what} has shape {shape}, expected {expected}")
    if shape and shape[0] == 0 and expected[0] == -1:
        # Some engines crash on an empty batch, so none ever gets there.
        raise InvalidRequestError(f"{what} has shape {shape} with 0 rows, expected at least 1")
    if signature.max_batch_size > 0 and shape[0] > signature.max_batch_size:
        raise InvalidRequestError(
            f"{what} has {shape[0]} rows, expected at most {signature.max_batch_size} (max_batch_size); split the "
            "request"
        )
    return shape


def _refuse_non_finite(array: Array, rule: TensorRule, what: str) -> None:
    found = first_non_finite(array, rule.datatype)
    if found is not None:
        count, index = found
        raise InvalidRequestError(
            f"{what} has {count} values that are NaN or infinite, the first at index {list(index)}; clean the data, or "
            'set the model parameter allow_non_finite to "true" in config.pbtxt'
        )


def _refuse_parameters(parameters: Mapping[str, Any], unsupported: Sequence[str], owner: str) -> None:
    """Parameters that would change the answer are refused where they do not work; others are ignored."""
    for name in unsupported:
        if name in parameters:
            kind = "shared memory" if name in _SHARED_MEMORY else name
            raise UnsupportedError(f"{owner} has the parameter '{name}', but {kind} is not supported; leave it out")


def _names(rules: Sequence[TensorRule]) -> str:
    return ", ".join(f"'{rule.name}'" for rule in rules)


def _short(text: str, limit: int = 64) -> str:
    """Keeps what a client sent from flooding a message."""
    return text if len(text) <= limit else f"{text[:limit]}..."

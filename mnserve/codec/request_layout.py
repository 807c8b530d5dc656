"""Layout of an inference request: what can be checked, and remembered, without looking into its tensors.

Shapes: B rows of the batch; a model with ``max_batch_size`` 0 has no batch dimension and its requests count as one
row. Every fault is an InvalidRequestError (or UnsupportedError) that names what came and what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mnserve.codec.classification import class_counts
from mnserve.codec.shared_memory import Regions, Slice
from mnserve.codec.shared_tensors import slices
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.protocol import service_pb2 as pb
from mnserve.text.names import shortened

MAX_BYTES_ELEMENTS: Final = 2**20
"""Most elements of one BYTES tensor in a request. Each becomes an object of its own, so that a message of 64 MiB of
empty elements would take gigabytes."""
_SEQUENCE: Final = "sequence_id"
MAX_DIMENSIONS: Final = 32
"""Longer shapes are looked at only for their length: a message of 64 MiB may be one shape."""


@dataclass(frozen=True, kw_only=True)
class RequestLayout:
    """Names, shapes and places of the tensors of a request; equal for many requests.

    Attributes:
        positions: For each input of ``rules`` its position in the request.
        raw_positions: For each position of the request, its place among the raw contents; None for shared memory.
        shapes: Their shapes, (B, *dims) or (*dims).
        nbytes: Their sizes as raw contents; None where elements have lengths of their own.
        rows: B, or 1 for a model without a batch dimension.
        outputs: Outputs wanted, in the order of the answer.
        rules: Rules of the inputs, in the order of ``positions``.
        alone: The request brings an optional input, so it shares no batch.
        classes: Outputs wanted as their highest classes, and how many of those; None where there are none.
    """

    positions: tuple[int, ...]
    raw_positions: tuple[int | None, ...]
    shapes: tuple[list[int], ...]
    nbytes: tuple[int | None, ...]
    rows: int
    outputs: tuple[str, ...]
    rules: tuple[TensorRule, ...]
    alone: bool
    classes: Mapping[str, int] | None = None

    @cached_property
    def large(self) -> bool:
        """True if decoding raw contents takes more than about a millisecond.

        Strings count as large: their sizes are not known before they are taken apart.
        """
        return None in self.nbytes or sum(nbytes or 0 for nbytes in self.nbytes) > INLINE_BYTES


def read_layout(
    request: pb.ModelInferRequest, signature: RequestSignature, regions: Regions | None
) -> tuple[RequestLayout, Mapping[str, Slice], Mapping[str, Slice]]:
    """Checks the names, types, shapes and parameters of a request.

    Args:
        request: The message.
        signature: The model's signature.
        regions: Shared memory that callers have registered; None where there is none.

    Returns:
        Its layout; inputs that lie in shared memory, and where; outputs that are wanted there, and where.

    Raises:
        InvalidRequestError: The request breaks a rule.
        UnsupportedError: It belongs to a sequence, or asks for shared memory where there is none.
    """
    _refuse_sequence(request.parameters)
    positions = _positions(request, signature)
    outputs = _requested_outputs(request, signature)
    sources = slices(request.inputs, "input", signature.model, regions)
    targets = slices(request.outputs, "output", signature.model, regions)
    parametrised = [tensor for tensor in request.outputs if tensor.parameters]
    classes = class_counts(parametrised, signature, targets) if parametrised else None
    raw_positions = _raw_positions(request, signature, sources)
    shapes: list[list[int]] = []
    rows: int | None = None
    replaced = tuple(rule for rule in signature.optional_inputs if rule.name in positions)
    rules = (*signature.inputs, *replaced)
    for rule in rules:
        shape = _check_shape(request.inputs[positions[rule.name]], rule, signature)
        if signature.max_batch_size > 0 and not rule.optional:
            if rows is not None and shape[0] != rows:
                raise InvalidRequestError(
                    f"model '{signature.model}': input '{rule.name}' has {shape[0]} rows, expected {rows} as in input "
                    f"'{signature.inputs[0].name}'"
                )
            rows = shape[0]
        shapes.append(shape)
    if signature.input_rules.about_shapes:
        by_name = {rule.name: shape for rule, shape in zip(rules, shapes, strict=True)}
        signature.input_rules.check_shapes(signature.model, by_name)
    sizes = tuple(
        None if rule.datatype.is_bytes else math.prod(shape) * rule.datatype.dtype.itemsize
        for rule, shape in zip(rules, shapes, strict=True)
    )
    for rule, shape, size in zip(rules, shapes, sizes, strict=True):
        if rule.name in sources and size not in (None, sources[rule.name].byte_size):
            raise InvalidRequestError(
                f"{describe(rule, signature)} has {sources[rule.name].byte_size} bytes of raw contents, expected "
                f"{size} for shape {shape} of {rule.datatype.name}"
            )
    layout = RequestLayout(
        positions=tuple(positions[rule.name] for rule in rules),
        raw_positions=raw_positions,
        shapes=tuple(shapes),
        nbytes=sizes,
        rows=1 if rows is None else rows,
        outputs=outputs,
        rules=rules,
        alone=bool(replaced),
        classes=classes,
    )
    return layout, sources, targets


def _positions(request: pb.ModelInferRequest, signature: RequestSignature) -> dict[str, int]:
    """Maps input names to positions in the request, after checking that exactly the model's inputs are there."""
    positions: dict[str, int] = {}
    for position, tensor in enumerate(request.inputs):
        name = tensor.name
        if name in positions:
            raise InvalidRequestError(f"model '{signature.model}': input '{shortened(name)}' is given twice")
        if name not in signature.input_names:
            raise InvalidRequestError(
                f"model '{signature.model}' has no input '{shortened(name)}'; it has "
                f"{_names((*signature.inputs, *signature.optional_inputs)) or 'none'}"
            )
        positions[name] = position
    missing = [rule.name for rule in signature.inputs if rule.name not in positions]
    if missing:
        raise InvalidRequestError(
            f"model '{signature.model}': input {', '.join(map(repr, missing))} is missing; expected "
            f"{len(signature.inputs)} inputs ({_names(signature.inputs)}), got {len(positions)}"
        )
    return positions


def _requested_outputs(request: pb.ModelInferRequest, signature: RequestSignature) -> tuple[str, ...]:
    rules = signature.output_rules
    if not request.outputs:
        return signature.default_outputs
    names: dict[str, None] = {}
    for tensor in request.outputs:
        name = tensor.name
        if name in names:
            raise InvalidRequestError(f"model '{signature.model}': output '{shortened(name)}' is requested twice")
        if name not in rules:
            raise InvalidRequestError(
                f"model '{signature.model}' has no output '{shortened(name)}'; it has {_names(signature.outputs)}"
            )
        names[name] = None
    return tuple(names)


def _raw_positions(
    request: pb.ModelInferRequest, signature: RequestSignature, sources: Mapping[str, Slice]
) -> tuple[int | None, ...]:
    """Finds each input's place among the raw contents; None for an input in shared memory."""
    raw, positions, count = request.raw_input_contents, list[int | None](), 0
    for tensor in request.inputs:
        shared = tensor.name in sources
        if shared and tensor.HasField("contents"):
            raise InvalidRequestError(
                f"model '{signature.model}': input '{tensor.name}' has contents, and is in shared memory; send it once"
            )
        positions.append(None if shared else count)
        count += not shared
    if raw and len(raw) != count:
        for tensor in request.inputs:
            if tensor.HasField("contents"):
                raise InvalidRequestError(sent_twice(tensor.name, signature))
        raise InvalidRequestError(
            f"model '{signature.model}': {len(raw)} raw_input_contents for {count} inputs"
            f"{' that are not in shared memory' if sources else ''}; send one for each input, or none"
        )
    return tuple(positions)


def sent_twice(name: str, signature: RequestSignature) -> str:
    """Describes an input with typed and raw contents, in Triton's words, for which clients look."""
    return (
        f"contents field must not be specified when using raw_input_contents for '{name}' for model "
        f"'{signature.model}': the input has both; send one of them"
    )


def describe(rule: TensorRule, signature: RequestSignature) -> str:
    """Names an input for messages."""
    return f"model '{signature.model}': input '{rule.name}'"


def _check_shape(
    tensor: pb.ModelInferRequest.InferInputTensor, rule: TensorRule, signature: RequestSignature
) -> list[int]:
    what = describe(rule, signature)
    if tensor.datatype != rule.datatype.name:
        raise InvalidRequestError(f"{what} has datatype '{shortened(tensor.datatype)}', expected {rule.datatype.name}")
    expected = signature.full_shape(rule)
    if rule.any_shape:
        if len(tensor.shape) > MAX_DIMENSIONS:
            raise InvalidRequestError(
                f"{what} has a shape of {len(tensor.shape)} dimensions, expected at most {MAX_DIMENSIONS}"
            )
        expected = [-1] * len(tensor.shape)
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
    if signature.is_empty_batch(rule, shape):
        raise InvalidRequestError(f"{what} has shape {shape} with 0 rows, expected at least 1")
    if signature.max_batch_size > 0 and not rule.optional and shape[0] > signature.max_batch_size:
        raise InvalidRequestError(
            f"{what} has {shape[0]} rows, expected at most {signature.max_batch_size} (max_batch_size); split the "
            "request"
        )
    if rule.datatype.is_bytes and math.prod(shape) > MAX_BYTES_ELEMENTS:
        raise InvalidRequestError(
            f"{what} has shape {shape}, {math.prod(shape)} elements of BYTES, expected at most {MAX_BYTES_ELEMENTS}; "
            "split the request"
        )
    return shape


def _refuse_sequence(parameters: Mapping[str, Any]) -> None:
    """Refuses requests of a sequence, whose answers depend on earlier ones. 0 and an empty text stand for none."""
    if _SEQUENCE not in parameters:
        return
    kind = parameters[_SEQUENCE].WhichOneof("parameter_choice")
    if kind is not None and getattr(parameters[_SEQUENCE], kind) in (0, ""):
        return
    raise UnsupportedError(
        f"the request has a {_SEQUENCE}, but no model keeps a state between requests here; leave it out"
    )


def _names(rules: Sequence[TensorRule]) -> str:
    return ", ".join(f"'{rule.name}'" for rule in rules)

"""Inference requests -> arrays: the rules of the protocol, as pure functions.

Shapes: B rows of the batch; a model with ``max_batch_size`` 0 has no batch dimension and its requests count as one
row. Every fault of a request is an InvalidRequestError (or UnsupportedError) that names what came and what was
expected; nothing that passes here is refused later for its form.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from mnserve.errors import InvalidRequestError, UnsupportedError
from mnserve.protocol import service_pb2 as pb
from mnserve.shared_memory import Regions, Slice
from mnserve.shared_tensors import slices
from mnserve.signature import Signature, TensorRule
from mnserve.tensors import INLINE_BYTES, TYPED_WORK, contents_to_array, first_non_finite, raw_to_array

__all__ = [
    "MAX_BYTES_ELEMENTS",
    "MAX_FORMS",
    "CheckedRequest",
    "DecodedRequest",
    "check_request",
    "decode_request",
]

Array = np.ndarray[Any, Any]

MAX_BYTES_ELEMENTS: Final = 2**20
"""Most elements of one BYTES tensor in a request. Each becomes an object of its own, so that a message of 64 MiB of
empty elements would take gigabytes."""
_MOST_DIMENSIONS: Final = 32
"""Shapes of more are not looked at but for their length: a message of 64 MiB may be one shape."""
MAX_FORMS: Final = 1024
"""Forms of requests that are remembered for each model."""


class DecodedRequest(NamedTuple):
    """A request that keeps every rule.

    Attributes:
        feeds: Arrays in the order of the model's inputs, (B, *dims) or (*dims); read-only views of the message.
        rows: B, or 1 for a model without a batch dimension.
        outputs: Outputs wanted, in the order of the answer.
    """

    feeds: Mapping[str, Array]
    rows: int
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Form:
    """What requests of one form have in common, however different their tensors are.

    Attributes:
        positions: For each of the model's inputs, in order, where the request has it.
        raw_positions: For each position of the request, which of the raw contents is its; None for shared memory.
        shapes: Shapes of the model's inputs, (B, *dims) or (*dims).
        nbytes: Their sizes as raw contents; None where elements have lengths of their own.
        rows: B, or 1 for a model without a batch dimension.
        outputs: Outputs wanted, in the order of the answer.
    """

    positions: tuple[int, ...]
    raw_positions: tuple[int | None, ...]
    shapes: tuple[list[int], ...]
    nbytes: tuple[int | None, ...]
    rows: int
    outputs: tuple[str, ...]

    @cached_property
    def large(self) -> bool:
        """Whether decoding raw contents takes more than about a millisecond. Strings count as large: their sizes are
        not known before they are taken apart."""
        return None in self.nbytes or sum(nbytes or 0 for nbytes in self.nbytes) > INLINE_BYTES


class CheckedRequest(NamedTuple):
    """A request whose form keeps every rule; what its tensors hold was not looked at yet.

    Attributes:
        request: The message.
        signature: The model's signature.
        form: What was found.
        sources: Inputs that lie in shared memory, and where.
        targets: Outputs that are wanted in shared memory, and where.
        regions: What callers have registered; None where there is no shared memory.
    """

    request: pb.ModelInferRequest
    signature: Signature
    form: Form
    sources: Mapping[str, Slice]
    targets: Mapping[str, Slice]
    regions: Regions | None

    @property
    def rows(self) -> int:
        """B, or 1 for a model without a batch dimension."""
        return self.form.rows

    @property
    def large(self) -> bool:
        """Whether decoding it takes more than about a millisecond."""
        if self.form.large or self.request.raw_input_contents:
            return self.form.large
        typed, shared = 0, 0
        for rule, shape, nbytes in zip(self.signature.inputs, self.form.shapes, self.form.nbytes, strict=True):
            if rule.name in self.sources:
                shared += nbytes or 0
            else:
                typed += math.prod(shape)
        return typed * TYPED_WORK + shared > INLINE_BYTES

    def decode(self) -> DecodedRequest:
        """Takes the tensors out; depends on nothing but the message, so any thread may do it.

        Raises:
            InvalidRequestError: What a tensor holds does not fit its shape and type, or is not finite.
        """
        raw, form, signature = self.request.raw_input_contents, self.form, self.signature
        feeds: dict[str, Array] = {}
        for rule, position, shape, nbytes in zip(
            signature.inputs, form.positions, form.shapes, form.nbytes, strict=True
        ):
            raw_position = form.raw_positions[position]
            if raw_position is None or not raw:
                array = self._elsewhere(rule, position, shape)
            else:
                if self.request.inputs[position].HasField("contents"):
                    what = _what(rule, signature)
                    raise InvalidRequestError(f"{what} has both contents and raw_input_contents; send one of them")
                data = raw[raw_position]
                if nbytes and len(data) == nbytes and rule.datatype.name != "BOOL":
                    array = np.frombuffer(data, dtype=rule.datatype.dtype).reshape(shape)
                else:
                    array = raw_to_array(data, rule.datatype, shape, _what(rule, signature))
            if rule.datatype.floating and not signature.allow_non_finite:
                _refuse_non_finite(array, rule, signature)
            feeds[rule.name] = array
        return DecodedRequest(feeds=feeds, rows=form.rows, outputs=form.outputs)

    def _elsewhere(self, rule: TensorRule, position: int, shape: Sequence[int]) -> Array:
        """A tensor that comes as typed contents, or in shared memory."""
        what = _what(rule, self.signature)
        if rule.name in self.sources:
            assert self.regions is not None
            return raw_to_array(self.regions.read(self.sources[rule.name], what), rule.datatype, shape, what)
        return contents_to_array(self.request.inputs[position].contents, rule.datatype, shape, what)


def decode_request(
    request: pb.ModelInferRequest, signature: Signature, regions: Regions | None = None
) -> DecodedRequest:
    """Checks a request and takes its tensors out: check_request and CheckedRequest.decode in one."""
    return check_request(request, signature, regions).decode()


def check_request(
    request: pb.ModelInferRequest, signature: Signature, regions: Regions | None = None
) -> CheckedRequest:
    """Checks the form of a request against the model's signature; quick, whatever its tensors hold.

    Args:
        request: The message.
        signature: The model's signature.
        regions: Shared memory that callers have registered; None where there is none.

    Raises:
        InvalidRequestError: The request breaks a rule.
        UnsupportedError: It asks for classification, for sequences, or for shared memory where there is none.
    """
    key = _key(request, signature)
    if key is not None and (known := signature.forms.get(key)) is not None:
        return CheckedRequest(request, signature, known, {}, {}, regions)
    _refuse_parameters(request.parameters, ("sequence_id",), "the request")
    tensors = _by_name(request, signature)
    outputs = _requested_outputs(request, signature)
    sources = slices(request.inputs, "input", signature.model, regions)
    targets = slices(request.outputs, "output", signature.model, regions)
    raw_positions = _raw_positions(request, signature, sources)
    shapes: list[list[int]] = []
    rows: int | None = None
    for rule in signature.inputs:
        shape = _check_shape(request.inputs[tensors[rule.name]], rule, signature)
        if signature.max_batch_size > 0:
            if rows is not None and shape[0] != rows:
                raise InvalidRequestError(
                    f"model '{signature.model}': input '{rule.name}' has {shape[0]} rows, expected {rows} as in input "
                    f"'{signature.inputs[0].name}'"
                )
            rows = shape[0]
        shapes.append(shape)
    form = Form(
        positions=tuple(tensors[rule.name] for rule in signature.inputs),
        raw_positions=raw_positions,
        shapes=tuple(shapes),
        nbytes=tuple(
            None if rule.datatype.is_bytes else math.prod(shape) * rule.datatype.dtype.itemsize
            for rule, shape in zip(signature.inputs, shapes, strict=True)
        ),
        rows=1 if rows is None else rows,
        outputs=outputs,
    )
    if key is not None:
        if len(signature.forms) >= MAX_FORMS:
            signature.forms.clear()
        signature.forms[key] = form
    return CheckedRequest(request, signature, form, sources, targets, regions)


def _key(request: pb.ModelInferRequest, signature: Signature) -> Hashable:
    """All that the form of a request depends on; None where it has parameters, which are looked at every time, or more
    of anything than a request that keeps the rules."""
    inputs, outputs = request.inputs, request.outputs
    if request.parameters or len(outputs) > len(signature.outputs) or len(inputs) != len(signature.inputs):
        return None
    key: list[Hashable] = [len(request.raw_input_contents)]
    for tensor in inputs:
        shape = tensor.shape
        if tensor.parameters or len(shape) > _MOST_DIMENSIONS:
            return None
        key += (tensor.name, tensor.datatype, tuple(shape))
    for wanted in outputs:
        if wanted.parameters:
            return None
        key.append(wanted.name)
    return tuple(key)


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
        return signature.default_outputs
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
            _refuse_parameters(tensor.parameters, ("classification",), f"output '{name}'")
        wanted[name] = None
    return tuple(wanted)


def _raw_positions(
    request: pb.ModelInferRequest, signature: Signature, sources: Mapping[str, Slice]
) -> tuple[int | None, ...]:
    """For each input of a request its place among the raw contents, which those in shared memory have none of."""
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
        raise InvalidRequestError(
            f"model '{signature.model}': {len(raw)} raw_input_contents for {count} inputs"
            f"{' that are not in shared memory' if sources else ''}; send one for each input, or none"
        )
    return tuple(positions)


def _what(rule: TensorRule, signature: Signature) -> str:
    return f"model '{signature.model}': input '{rule.name}'"


def _check_shape(tensor: pb.ModelInferRequest.InferInputTensor, rule: TensorRule, signature: Signature) -> list[int]:
    what = _what(rule, signature)
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
    if rule.datatype.is_bytes and math.prod(shape) > MAX_BYTES_ELEMENTS:
        raise InvalidRequestError(
            f"{what} has shape {shape}, {math.prod(shape)} elements of BYTES, expected at most {MAX_BYTES_ELEMENTS}; "
            "split the request"
        )
    return shape


def _refuse_non_finite(array: Array, rule: TensorRule, signature: Signature) -> None:
    found = first_non_finite(array, rule.datatype)
    if found is not None:
        count, index = found
        raise InvalidRequestError(
            f"{_what(rule, signature)} has {count} values that are NaN or infinite, the first at index {list(index)}; "
            'clean the data, or set the model parameter allow_non_finite to "true" in config.pbtxt'
        )


def _refuse_parameters(parameters: Mapping[str, Any], unsupported: Sequence[str], owner: str) -> None:
    """Parameters that would change the answer are refused where they do not work; others are ignored."""
    for name in unsupported:
        if name in parameters:
            raise UnsupportedError(f"{owner} has the parameter '{name}', but {name} is not supported; leave it out")


def _names(rules: Sequence[TensorRule]) -> str:
    return ", ".join(f"'{rule.name}'" for rule in rules)


def _short(text: str, limit: int = 64) -> str:
    """Keeps what a client sent from flooding a message."""
    return text if len(text) <= limit else f"{text[:limit]}..."

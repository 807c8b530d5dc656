"""Decoding of inference requests: a message becomes the arrays that an engine takes.

Pure functions; ``mnserve.codec.request_layout`` has the rules of names, types, shapes and parameters.

Shapes: B rows of the batch; a model with ``max_batch_size`` 0 has no batch dimension and its requests count as one
row. Every fault of a request is an InvalidRequestError (or UnsupportedError) that names what came and what was
expected. A request that passes here is not refused later for its form.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from mnserve.codec.request_layout import MAX_DIMENSIONS, RequestLayout, describe, read_layout, sent_twice
from mnserve.codec.shared_memory import Regions, Slice
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.codec.tensors import INLINE_BYTES, TYPED_WORK, contents_to_array, first_non_finite, raw_to_array
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

Array = np.ndarray[Any, Any]

MAX_LAYOUTS: Final = 1024
"""Layouts of requests that are remembered for each model."""


@dataclass(kw_only=True, eq=False, slots=True)
class InferenceWork:
    """Work for an engine: the decoded request of one caller.

    Attributes:
        feeds: Input name -> (B, *dims) array in the order of the model's inputs, (*dims) for a model without a batch
            dimension. Read-only views of the message where that is possible.
        rows: B, or 1 for a model without a batch dimension.
        outputs: Names of the outputs wanted, in the order of the answer.
        alone: It shares no batch, since it replaces a default of the model.
        nbytes: Memory of ``feeds``; strings count with what they hold.
    """

    feeds: Mapping[str, Array]
    rows: int
    outputs: tuple[str, ...]
    alone: bool = False
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.nbytes = sum([_nbytes(array) for array in self.feeds.values()])


class CheckedRequest(NamedTuple):
    """A request whose layout keeps every rule; its tensors are not decoded yet.

    Attributes:
        request: The message.
        signature: The model's signature.
        layout: Layout of the request.
        sources: Inputs that lie in shared memory, and where.
        targets: Outputs that are wanted in shared memory, and where.
        regions: Shared memory that callers have registered; None where there is none.
    """

    request: pb.ModelInferRequest
    signature: RequestSignature
    layout: RequestLayout
    sources: Mapping[str, Slice]
    targets: Mapping[str, Slice]
    regions: Regions | None

    @property
    def large(self) -> bool:
        """True if decoding takes more than about a millisecond."""
        if self.layout.large or self.request.raw_input_contents:
            return self.layout.large
        typed, shared = 0, 0
        for rule, shape, nbytes in zip(self.layout.rules, self.layout.shapes, self.layout.nbytes, strict=True):
            if rule.name in self.sources:
                shared += nbytes or 0
            else:
                typed += math.prod(shape)
        return typed * TYPED_WORK + shared > INLINE_BYTES

    def decode(self) -> InferenceWork:
        """Takes the tensors out; depends on nothing but the message, so any thread may do it.

        Raises:
            InvalidRequestError: A tensor's content does not fit its shape and type, is not finite, or out of its range.
        """
        raw, layout, signature = self.request.raw_input_contents, self.layout, self.signature
        feeds: dict[str, Array] = {}
        for rule, position, shape, nbytes in zip(
            layout.rules, layout.positions, layout.shapes, layout.nbytes, strict=True
        ):
            raw_position = layout.raw_positions[position]
            if raw_position is None or not raw:
                array = self._decode_elsewhere(rule, position, shape)
            else:
                if self.request.inputs[position].HasField("contents"):
                    raise InvalidRequestError(sent_twice(rule.name, signature))
                data = raw[raw_position]
                if nbytes and len(data) == nbytes and rule.datatype.name != "BOOL":
                    array = np.frombuffer(data, dtype=rule.datatype.dtype).reshape(shape)
                else:
                    array = raw_to_array(data, rule.datatype, shape, describe(rule, signature))
            if rule.datatype.floating and not signature.allow_non_finite:
                refuse_non_finite(array, rule, signature)
            feeds[rule.name] = array
        if signature.input_rules.value_ranges:
            signature.input_rules.check_values(signature.model, feeds)
        return InferenceWork(feeds=feeds, rows=layout.rows, outputs=layout.outputs, alone=layout.alone)

    def _decode_elsewhere(self, rule: TensorRule, position: int, shape: Sequence[int]) -> Array:
        """Decodes a tensor that comes as typed contents, or in shared memory."""
        what = describe(rule, self.signature)
        if rule.name in self.sources:
            assert self.regions is not None
            place = self.sources[rule.name]
            if rule.datatype.is_bytes:
                self.regions.check_strings(place, math.prod(shape), what)
            return raw_to_array(self.regions.read(place, what), rule.datatype, shape, what)
        return contents_to_array(self.request.inputs[position].contents, rule.datatype, shape, what)


def decode_request(
    request: pb.ModelInferRequest, signature: RequestSignature, regions: Regions | None = None
) -> InferenceWork:
    """Checks a request and decodes it: :func:`check_request` and :meth:`CheckedRequest.decode` in one."""
    return check_request(request, signature, regions).decode()


def check_request(
    request: pb.ModelInferRequest, signature: RequestSignature, regions: Regions | None = None
) -> CheckedRequest:
    """Checks the layout of a request against the model's signature; quick, since its tensors are not read.

    Args:
        request: The message.
        signature: The model's signature.
        regions: Shared memory that callers have registered; None where there is none.

    Raises:
        InvalidRequestError: The request breaks a rule.
        UnsupportedError: It belongs to a sequence, or asks for shared memory where there is none.
    """
    key = layout_key(request, signature)
    if key is not None and (known := signature.layouts.get(key)) is not None:
        return CheckedRequest(request, signature, known, {}, {}, regions)
    layout, sources, targets = read_layout(request, signature, regions)
    if key is not None:
        if len(signature.layouts) >= MAX_LAYOUTS:
            signature.layouts.clear()
        signature.layouts[key] = layout
    return CheckedRequest(request, signature, layout, sources, targets, regions)


def layout_key(request: pb.ModelInferRequest, signature: RequestSignature) -> Hashable:
    """Collects all that the layout of a request depends on, so that an equal one is checked once.

    Returns:
        The key. None for a request that is checked every time: with parameters, or with more inputs, outputs or
        dimensions than one that keeps the rules.
    """
    inputs, outputs = request.inputs, request.outputs
    if request.parameters or len(outputs) > len(signature.outputs) or len(inputs) > len(signature.input_names):
        return None
    key: list[Hashable] = [len(request.raw_input_contents)]
    for tensor in inputs:
        shape = tensor.shape
        if tensor.parameters or len(shape) > MAX_DIMENSIONS:
            return None
        key += (tensor.name, tensor.datatype, tuple(shape))
    for output in outputs:
        if output.parameters:
            return None
        key.append(output.name)
    return tuple(key)


def refuse_non_finite(array: Array, rule: TensorRule, signature: RequestSignature) -> None:
    """Refuses a tensor with NaN or infinite values that the model does not take.

    Raises:
        InvalidRequestError: There is one.
    """
    non_finite = first_non_finite(array, rule.datatype, allow_nan=signature.allow_nan)
    if non_finite is not None:
        count, index = non_finite
        kind = "infinite" if signature.allow_nan else "NaN or infinite"
        raise InvalidRequestError(
            f"{describe(rule, signature)} has {count} values that are {kind}, the first at index "
            f'{list(index)}; clean the data, or set the model parameter allow_non_finite to "true" in config.pbtxt'
        )


def _nbytes(array: Array) -> int:
    """Counts the memory of an array; that of strings takes a look at each."""
    if array.dtype != object:
        return array.nbytes
    return array.nbytes + sum(sys.getsizeof(element) for element in array.flat)

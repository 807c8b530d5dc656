"""Inference requests -> arrays, as pure functions; ``mnserve.codec.request_layout`` has the rules of their form.

Shapes: B rows of the batch; a model with ``max_batch_size`` 0 has no batch dimension and its requests count as one
row. Every fault of a request is an InvalidRequestError (or UnsupportedError) that names what came and what was
expected; nothing that passes here is refused later for its form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mnserve.codec.request_layout import RequestLayout, describe, layout_key, read_layout
from mnserve.codec.shared_memory import Regions, Slice
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.codec.tensors import INLINE_BYTES, TYPED_WORK, contents_to_array, first_non_finite, raw_to_array
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

__all__ = [
    "MAX_FORMS",
    "CheckedRequest",
    "DecodedRequest",
    "check_request",
    "decode_request",
]

Array = np.ndarray[Any, Any]

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
    signature: RequestSignature
    form: RequestLayout
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
                    what = describe(rule, signature)
                    raise InvalidRequestError(f"{what} has both contents and raw_input_contents; send one of them")
                data = raw[raw_position]
                if nbytes and len(data) == nbytes and rule.datatype.name != "BOOL":
                    array = np.frombuffer(data, dtype=rule.datatype.dtype).reshape(shape)
                else:
                    array = raw_to_array(data, rule.datatype, shape, describe(rule, signature))
            if rule.datatype.floating and not signature.allow_non_finite:
                _refuse_non_finite(array, rule, signature)
            feeds[rule.name] = array
        return DecodedRequest(feeds=feeds, rows=form.rows, outputs=form.outputs)

    def _elsewhere(self, rule: TensorRule, position: int, shape: Sequence[int]) -> Array:
        """A tensor that comes as typed contents, or in shared memory."""
        what = describe(rule, self.signature)
        if rule.name in self.sources:
            assert self.regions is not None
            return raw_to_array(self.regions.read(self.sources[rule.name], what), rule.datatype, shape, what)
        return contents_to_array(self.request.inputs[position].contents, rule.datatype, shape, what)


def decode_request(
    request: pb.ModelInferRequest, signature: RequestSignature, regions: Regions | None = None
) -> DecodedRequest:
    """Checks a request and takes its tensors out: check_request and CheckedRequest.decode in one."""
    return check_request(request, signature, regions).decode()


def check_request(
    request: pb.ModelInferRequest, signature: RequestSignature, regions: Regions | None = None
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
    key = layout_key(request, signature)
    if key is not None and (known := signature.forms.get(key)) is not None:
        return CheckedRequest(request, signature, known, {}, {}, regions)
    form, sources, targets = read_layout(request, signature, regions)
    if key is not None:
        if len(signature.forms) >= MAX_FORMS:
            signature.forms.clear()
        signature.forms[key] = form
    return CheckedRequest(request, signature, form, sources, targets, regions)


def _refuse_non_finite(array: Array, rule: TensorRule, signature: RequestSignature) -> None:
    found = first_non_finite(array, rule.datatype)
    if found is not None:
        count, index = found
        raise InvalidRequestError(
            f"{describe(rule, signature)} has {count} values that are NaN or infinite, the first at index "
            f'{list(index)}; clean the data, or set the model parameter allow_non_finite to "true" in config.pbtxt'
        )

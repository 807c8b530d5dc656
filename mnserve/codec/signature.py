"""Signature of a model: the tensors that its requests must have, and those that its answers have.

Shapes: ``dims`` leave the batch dimension out; B rows stand in front where ``max_batch_size`` > 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mnserve.codec.datatypes import Datatype
from mnserve.codec.input_rules import InputRules


@dataclass(frozen=True, kw_only=True)
class TensorRule:
    """Name, element type and sizes of one input or output.

    Attributes:
        name: Name in the protocol.
        datatype: Element type.
        dims: Sizes without the batch dimension; -1 is any size.
        any_shape: Nothing is known about the shape; ``dims`` is empty, and the engine decides.
        optional: An input that a request may leave out, since the model file has a default. It has no batch dimension,
            and a request that brings it runs alone.
    """

    name: str
    datatype: Datatype
    dims: tuple[int, ...]
    any_shape: bool = False
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class RequestSignature:
    """Inputs, outputs and limits that requests to a model are checked against.

    Attributes:
        model: Name of the model, for messages.
        max_batch_size: Most rows in one request; 0 for a model without a batch dimension.
        inputs: Inputs that every request brings.
        outputs: Outputs on offer.
        on_request: Names of the outputs that a request gets only by naming them.
        allow_non_finite: Let NaN and infinite inputs through.
        allow_nan: Let NaN through, which stands for a missing value, and no infinite inputs.
        optional_inputs: Inputs that a request may bring.
        input_rules: Rules about several inputs, or about their values.
        labels: Output name -> names of its classes by index; outputs without a label file are not there.
    """

    model: str
    max_batch_size: int
    inputs: tuple[TensorRule, ...]
    outputs: tuple[TensorRule, ...]
    on_request: frozenset[str] = frozenset()
    allow_non_finite: bool = False
    allow_nan: bool = False
    optional_inputs: tuple[TensorRule, ...] = ()
    input_rules: InputRules = field(default_factory=InputRules)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def input_names(self) -> frozenset[str]:
        """Names of all inputs, optional ones included."""
        return frozenset(rule.name for rule in (*self.inputs, *self.optional_inputs))

    @cached_property
    def output_rules(self) -> Mapping[str, TensorRule]:
        """Outputs by name, in the model's order."""
        return {rule.name: rule for rule in self.outputs}

    @cached_property
    def default_outputs(self) -> tuple[str, ...]:
        """Outputs for a request that names none, in the model's order."""
        return tuple(name for name in self.output_rules if name not in self.on_request)

    @cached_property
    def layouts(self) -> dict[Hashable, Any]:
        """Layouts of requests that kept the rules, as ``mnserve.codec.decoding`` remembers them."""
        return {}

    @cached_property
    def answers(self) -> dict[Hashable, Any]:
        """Forms of answers, as ``mnserve.rpc.inference`` remembers them for each version."""
        return {}

    def is_empty_batch(self, rule: TensorRule, shape: Sequence[int]) -> bool:
        """True if a tensor of this shape has no rows; some engines crash on that, so none ever gets there.

        The first dimension of a model without a batch dimension counts too, where it may have any size.
        """
        return bool(shape) and shape[0] == 0 and (rule.any_shape or self.full_shape(rule)[0] == -1)

    def full_shape(self, rule: TensorRule) -> list[int]:
        """Shape that clients see: ``dims``, behind -1 where the tensor has a batch dimension."""
        return [-1, *rule.dims] if self.max_batch_size > 0 and not rule.optional else list(rule.dims)

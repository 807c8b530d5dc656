"""Limits of inputs that a configuration states: most rows of a request, and the values of whole numbers.

Both are parameters with a text of JSON::

    mn.row_limit      {"inputs": ["support_images", "image"], "most": 1024}
    mn.value_ranges   {"support_labels": {"least": 0, "below": "support_images"}}

``below`` is a number, or an input whose first dimension is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnserve.codec.input_rules import RowLimit, ValueRange
from mnserve.codec.signature import TensorRule
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_parameters import ROW_LIMIT, VALUE_RANGES
from mnserve.text.json_text import parse_json


def row_limit(config: ModelConfig, inputs: Iterable[TensorRule]) -> RowLimit | None:
    """Reads the parameter mn.row_limit; None without it.

    Args:
        config: The configuration.
        inputs: Inputs of the model.

    Raises:
        ModelConfigError: It is no such text, or names no input.
    """
    value = _parsed(config, ROW_LIMIT)
    if value is None:
        return None
    rules = {rule.name: rule for rule in inputs}
    names, most = value.get("inputs"), value.get("most")
    if (
        set(value) != {"inputs", "most"}
        or not isinstance(names, list)
        or not names
        or not all(isinstance(name, str) and name in rules for name in names)
        or type(most) is not int
        or most < len(names)
    ):
        raise _fault(config, ROW_LIMIT, f'{{"inputs": [some of {_names(rules)}], "most": a number of rows}}')
    return RowLimit(inputs=tuple(names), most=most)


def value_ranges(config: ModelConfig, inputs: Iterable[TensorRule]) -> tuple[ValueRange, ...]:
    """Reads the parameter mn.value_ranges; empty without it.

    Args:
        config: The configuration.
        inputs: Inputs of the model.

    Raises:
        ModelConfigError: It is no such text, or names no input of whole numbers.
    """
    value = _parsed(config, VALUE_RANGES)
    if value is None:
        return ()
    rules = {rule.name: rule for rule in inputs}
    found = []
    for name, limits in value.items():
        integral = name in rules and rules[name].datatype.dtype.kind in "iu" and not rules[name].datatype.floating
        if not integral or not _is_range(limits, rules):
            raise _fault(
                config,
                VALUE_RANGES,
                '{"input of whole numbers": {"least": number, "below": number or name of an input}}',
            )
        found.append(ValueRange(input=name, least=limits["least"], below=limits["below"]))
    return tuple(found)


def _is_range(limits: Any, rules: Mapping[str, TensorRule]) -> bool:
    if not isinstance(limits, dict) or set(limits) != {"least", "below"} or type(limits["least"]) is not int:
        return False
    below = limits["below"]
    return below in rules if isinstance(below, str) else type(below) is int and below > limits["least"]


def _parsed(config: ModelConfig, name: str) -> dict[str, Any] | None:
    if name not in config.parameters:
        return None
    try:
        value = parse_json(config.parameters[name].string_value)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _fault(config, name, "an object of JSON")
    return value


def _fault(config: ModelConfig, name: str, expected: str) -> ModelConfigError:
    text = config.parameters[name].string_value
    return ModelConfigError(
        f"model '{config.name}': parameter {name} is '{text[:80]}' in config.pbtxt; expected {expected}"
    )


def _names(rules: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in rules)

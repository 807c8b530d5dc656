"""Layout of the rows that a model takes: which column of a table goes where, as its configuration says.

Shapes: a row has Fn numbers and Fc categories; a model takes [batch, Fn] and [batch, Fc].

``mnexport`` writes the parameter ``mn.input``:
``{"layout": "rows", "columns": [numbers, then categories], "categories": {name: [values]}, "target": name}``, or
``"targets": [names]`` where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mnserve.codec.datatypes import BY_CONFIG_TYPE
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInput
from mnserve.repository.model_parameters import allows_nan, allows_non_finite
from mnserve.text.json_text import parse_json

_PARAMETER: Final = "mn.input"


@dataclass(frozen=True, kw_only=True)
class RowInput:
    """Input of a model of rows: its name and its protocol type."""

    name: str
    datatype: str


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """Columns of the rows that a model takes, and what it answers.

    Attributes:
        numbers: Names of the columns of numbers, in their order.
        categories: Names of the columns of categories, in their order, with the values that the model knows; none
            where the configuration lists none, as there are too many.
        targets: Names of what is estimated or told apart.
        number_input: Input of the numbers; None for a table of categories alone.
        category_input: Input of the categories; None for a table of numbers alone.
        fills_in: The model takes NaN for a missing number.
    """

    numbers: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    targets: tuple[str, ...]
    number_input: RowInput | None
    category_input: RowInput | None
    fills_in: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns: numbers, then categories."""
        return (*self.numbers, *self.categories)


def row_layout(config: ModelConfig) -> TableLayout | None:
    """Reads the layout of rows from a complete configuration; None for a model that does not say that it takes rows.

    Raises:
        ModelConfigError: The layout is malformed, or does not fit the inputs.
    """
    stated = _stated(config)
    if stated is None:
        return None
    columns, categories, targets = stated
    required = [tensor for tensor in config.input if not tensor.optional]
    inputs = {BY_CONFIG_TYPE[tensor.data_type].is_bytes: tensor for tensor in required}
    layout = TableLayout(
        numbers=tuple(name for name in columns if name not in categories),
        categories={name: tuple(categories[name]) for name in columns if name in categories},
        targets=tuple(targets),
        number_input=_input(inputs.get(False)),
        category_input=_input(inputs.get(True)),
        fills_in=allows_nan(config) or allows_non_finite(config),
    )
    parts = ((inputs.get(False), layout.numbers), (inputs.get(True), layout.categories))
    fits = all(tensor is not None and list(tensor.dims) == [len(names)] for tensor, names in parts if names)
    if not fits or len(required) != sum(bool(names) for _, names in parts):
        raise ModelConfigError(
            f"model '{config.name}' takes inputs of dims {[list(tensor.dims) for tensor in required]}, but its "
            f"parameter {_PARAMETER} names {len(layout.numbers)} columns of numbers and {len(layout.categories)} of "
            "categories; correct its config.pbtxt"
        )
    return layout


def _stated(config: ModelConfig) -> tuple[list[str], dict[str, list[str]], list[str]] | None:
    """Reads columns, values of categories and targets from the parameter; None where it is not about rows.

    Raises:
        ModelConfigError: The parameter is malformed.
    """
    if _PARAMETER not in config.parameters:
        return None
    text = config.parameters[_PARAMETER].string_value
    try:
        stated = parse_json(text)
    except ValueError:
        return None  # whoever reads images tells what is wrong
    if not isinstance(stated, dict) or stated.get("layout") != "rows":
        return None
    columns, categories = stated.get("columns"), stated.get("categories", {})
    targets = stated.get("targets", [stated.get("target")])
    if (
        isinstance(columns, list)
        and isinstance(categories, dict)
        and all(_are_names(names) for names in (columns, targets))
        and all(values == [] or _are_names(values) for values in categories.values())
        and all(name in columns for name in categories)
    ):
        return columns, categories, targets
    raise ModelConfigError(
        f"model '{config.name}' has the parameter {_PARAMETER} = {text[:80]!r}, which does not describe rows, such as "
        '{"layout": "rows", "columns": ["age"], "target": "price"}; correct its config.pbtxt'
    )


def _input(tensor: ModelInput | None) -> RowInput | None:
    return None if tensor is None else RowInput(name=tensor.name, datatype=BY_CONFIG_TYPE[tensor.data_type].name)


def _are_names(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)

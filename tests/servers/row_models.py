"""A model of rows whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COLORS = ("blue", "grün", "red")


def write_row_model(write: Callable[..., Path], name: str = "rows", **changes: Any) -> Path:
    """Write a model of rows with the numbers age and income, the category color, and the targets y and z.

    y = age + 10·income + 100·(position of the color, −1 if unknown) and z = −y; a missing number is 0.5. Without
    adaptation both are 0.

    Args:
        write: the fixture ``onnx_model``.
        name: of the model.
        changes: parameters of config.pbtxt; None takes one away.
    """
    from onnx import helper

    code = helper.make_node(
        "LabelEncoder", ["categories"], ["code"], domain="ai.onnx.ml", default_float=-1.0,
        keys_strings=[color.encode() for color in COLORS], values_floats=[0.0, 1.0, 2.0],
    )  # fmt: skip
    nodes = [
        ("IsNaN", ["row"], ["gaps"]),
        ("Where", ["gaps", "fill", "row"], ["filled"]),
        code,
        helper.make_node("Concat", ["filled", "code"], ["stored"], axis=1),
        ("MatMul", ["stored", "factors"], ["value"]),
        ("Mul", ["value", "zero"], ["unadapted_value"]),
        helper.make_node("Softmax", ["value"], ["shares"], axis=1),
        ("TopK", ["shares", "two"], ["neighbor_weights", "neighbor_indices"]),
        ("Gather", ["of_entries", "neighbor_indices"], ["neighbor_values"]),
    ]
    parameters = {
        "mn.input": {
            "layout": "rows",
            "columns": ["age", "income", "color"],
            "categories": {"color": list(COLORS)},
            "targets": ["y", "z"],
        },
        "mn.on_request": ["unadapted_value", "neighbor_weights", "neighbor_indices", "neighbor_values"],
        "allow_nan": True,
    } | changes
    floats, strings = ("FLOAT", ["batch", 2]), ("STRING", ["batch", 1])
    return write(
        name,
        nodes,
        {"row": floats, "categories": strings},
        {
            "value": floats,
            "unadapted_value": floats,
            "neighbor_weights": floats,
            "neighbor_indices": ("INT64", ["batch", 2]),
            "neighbor_values": ("FLOAT", ["batch", 2, 2]),
        },
        initializers={
            "fill": np.array(0.5, np.float32),
            "factors": np.array([[1, -1], [10, -10], [100, -100]], np.float32),
            "zero": np.array(0, np.float32),
            "two": np.array([2]),
            "of_entries": np.array([[1, 2], [3, 4]], np.float32),
        },
        config="max_batch_size: 4\n"
        + "\n".join(
            f"parameters {{ key: {json.dumps(key)} value {{ string_value: {json.dumps(json.dumps(value))} }} }}"
            for key, value in parameters.items()
            if value is not None
        ),
    )

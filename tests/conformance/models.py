"""A repository of tiny ONNX models in Triton's layout, one for each thing that a server can meet.

``python tests/conformance/models.py FOLDER`` writes it for any server (``--help`` describes them).
Nothing of mnserve is needed for it, only numpy and onnx.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, tuple[int, list[Any]]]
"""Name of a tensor -> element type and sizes."""

MODELS = """\
double     x FP32 [-1, 4] -> y = 2 x, z = -x; at most 8 rows
pair       a, b FP32 [-1, 4] -> total = a + b; at most 8 rows
same_TYPE  x TYPE [-1, -1] -> y = x; one for every datatype, at most 8 rows
wide       x FP32 [-1, -1] -> y = x twice, side by side; at most 8 rows
mix        x FP32 [-1, 16] -> y FP32 [-1, 8], a layer and a softmax; at most 8 rows
whole      x INT64 [2, 3] -> y = x; no batch dimension
slow       x FP32 [-1, 4], turns INT64 [-1, 1] -> y = x, after so many turns of a loop; at most 8 rows
small      the same, one row at a time, and two requests may wait
hasty      the same, for at most 50 ms, and with two priorities
tolerant   x FP32 [-1, 4] -> y = 2 x, also where x is not finite
picky      slow, and index INT64 [-1, 1] -> value = 1 or 2; its run fails where an index is above 1
versions   x FP32 [-1, 4] -> y = x + version; 1 and 2 are good, 3 is no model
broken     one version, which is no model
"""
ELEMENTS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}
BATCHED = "max_batch_size: 8\ndynamic_batching {}\n"
_ROWS = (TensorProto.FLOAT, ["batch", 4])
_NUMBER = (TensorProto.INT64, ["batch", 1])
_WIDTH = 256
"""Of the product in the loop of ``slow``: enough that a few thousand turns can be felt."""


def write_models(root: Path) -> None:
    """Writes all of ``MODELS`` into a folder."""
    _write_quick(root)
    _write_types(root)
    _write_slow(root)
    _write_broken(root)


def _write_quick(root: Path) -> None:
    _save(root, "double", [_node("Add", "x x", "y"), _node("Neg", "x", "z")], {"x": _ROWS}, {"y": _ROWS, "z": _ROWS})
    _save(root, "pair", [_node("Add", "a b", "total")], {"a": _ROWS, "b": _ROWS}, {"total": _ROWS})
    tolerant = BATCHED + 'parameters { key: "allow_non_finite" value { string_value: "true" } }\n'
    _save(root, "tolerant", [_node("Add", "x x", "y")], {"x": _ROWS}, {"y": _ROWS}, config=tolerant)
    anything = (TensorProto.FLOAT, ["batch", "width"])
    doubled = (TensorProto.FLOAT, ["batch", "doubled"])
    _save(root, "wide", [_node("Concat", "x x", "y", axis=1)], {"x": anything}, {"y": doubled})
    weight = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    layer = [_node("MatMul", "x weight", "logits"), _node("Softmax", "logits", "y", axis=1)]
    float_rows = {size: (TensorProto.FLOAT, ["batch", size]) for size in (16, 8)}
    _save(root, "mix", layer, {"x": float_rows[16]}, {"y": float_rows[8]}, {"weight": weight})
    whole = (TensorProto.INT64, [2, 3])
    _save(root, "whole", [_node("Identity", "x", "y")], {"x": whole}, {"y": whole}, config="max_batch_size: 0\n")


def _write_types(root: Path) -> None:
    for name, element in ELEMENTS.items():
        tensor = (element, ["batch", "width"])
        _save(root, f"same_{name}", [_node("Identity", "x", "y")], {"x": tensor}, {"y": tensor})


def _write_slow(root: Path) -> None:
    inputs = {"x": _ROWS, "turns": _NUMBER}
    _save(root, "slow", _loop(), inputs, {"y": _ROWS}, _loop_constants())
    small = "max_batch_size: 1\ndynamic_batching { default_queue_policy { max_queue_size: 2 } }\n"
    _save(root, "small", _loop(), inputs, {"y": _ROWS}, _loop_constants(), config=small)
    queue = "default_queue_policy { default_timeout_microseconds: 50000 }"
    levels = "priority_levels: 2 default_priority_level: 2"
    hasty = f"max_batch_size: 1\ndynamic_batching {{ {levels} {queue} }}\n"
    _save(root, "hasty", _loop(), inputs, {"y": _ROWS}, _loop_constants(), config=hasty)
    table = {"table": np.array([1, 2], dtype=np.float32)}
    _save(
        root,
        "picky",
        [*_loop(), _node("Gather", "table index", "value")],
        {**inputs, "index": _NUMBER},
        {"y": _ROWS, "value": (TensorProto.FLOAT, ["batch", 1])},
        {**_loop_constants(), **table},
    )


def _write_broken(root: Path) -> None:
    every = BATCHED + "version_policy { all {} }\n"
    for version in (1, 2):
        plus = {"plus": np.array(version, dtype=np.float32)}
        nodes = [_node("Add", "x plus", "y")]
        _save(root, "versions", nodes, {"x": _ROWS}, {"y": _ROWS}, plus, config=every, version=version)
    for name, version in (("versions", 3), ("broken", 1)):
        folder = root / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(b"this is no model")
    (root / "broken" / "config.pbtxt").write_text(BATCHED)


def _loop() -> list[Any]:
    """y = x, by way of ``turns`` products with the identity: the caller says how long it takes."""
    body = helper.make_graph(
        [_node("MatMul", "wide_in identity", "wide_out"), _node("Identity", "go_in", "go_out")],
        "body",
        _infos(
            {
                "turn": (TensorProto.INT64, []),
                "go_in": (TensorProto.BOOL, []),
                "wide_in": (TensorProto.FLOAT, [None, None]),
            }
        ),
        _infos({"go_out": (TensorProto.BOOL, []), "wide_out": (TensorProto.FLOAT, [None, None])}),
    )
    return [
        _node("ReduceMax", "turns", "most", keepdims=0),
        _node("MatMul", "x widen", "wide"),
        _node("Loop", "most go wide", "looped", body=body),
        _node("MatMul", "looped narrow", "y"),
    ]


def _loop_constants() -> dict[str, Array]:
    return {
        "widen": np.eye(4, _WIDTH, dtype=np.float32),
        "narrow": np.eye(_WIDTH, 4, dtype=np.float32),
        "identity": np.eye(_WIDTH, dtype=np.float32),
        "go": np.array(True),
    }


def _node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def _infos(tensors: Shapes) -> list[Any]:
    return [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in tensors.items()]


def _save(
    root: Path,
    name: str,
    nodes: Sequence[Any],
    inputs: Shapes,
    outputs: Shapes,
    constants: Mapping[str, Array] | None = None,
    *,
    config: str = BATCHED,
    version: int = 1,
) -> None:
    tensors = [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, name, _infos(inputs), _infos(outputs), tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    folder = root / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (root / name / "config.pbtxt").write_text(f'backend: "onnxruntime"\n{config}')


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=f"Writes the models of the conformance suite:\n\n{MODELS}")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="where the repository goes; made if it is not there")
    write_models(parser.parse_args().folder)

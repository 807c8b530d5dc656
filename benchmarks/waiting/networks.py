"""Networks whose run takes about as long as asked for, in one thread.

Shapes: images x float32 [N, 3, 32, 32], N open; y float32 [N, 10].

A dense network reads its weights once for a whole batch, so that a batch of 8 takes little longer than one row. The
rows of a network of convolutions cost the same each.
"""

import itertools
import time
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mnserve.engines.runtime import onnxruntime as ort

_PIXELS: Final = 3 * 32 * 32
_CLASSES: Final = 10
_WIDTH: Final = 512
_CHANNELS: Final = 16


def dense(layers: int) -> onnx.ModelProto:
    """Build a perceptron with so many layers of 512 features between its ends, which have 64."""
    widths = [_PIXELS, 64, *([_WIDTH] * layers), _CLASSES]
    nodes = [helper.make_node("Flatten", ["x"], ["h0"])]
    weights = []
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        weights.append(_weights(f"w{number}", (before, after)))
        output = f"h{number + 1}" if number + 2 < len(widths) else "y"
        nodes.append(helper.make_node("MatMul", [f"h{number}", f"w{number}"], [output]))
    return _model(nodes, weights)


def convolutions(layers: int) -> onnx.ModelProto:
    """Build a network of so many convolutions of 16 channels, with a mean and a dense layer behind them."""
    nodes, weights = [], []
    for number in range(layers):
        weights.append(_weights(f"w{number}", (_CHANNELS, _CHANNELS if number else 3, 3, 3)))
        source = f"h{number - 1}" if number else "x"
        nodes.append(helper.make_node("Conv", [source, f"w{number}"], [f"h{number}"], pads=[1, 1, 1, 1]))
    weights.append(_weights("head", (_CHANNELS, _CLASSES)))
    nodes += [
        helper.make_node("GlobalAveragePool", [f"h{layers - 1}"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("MatMul", ["features", "head"], ["y"]),
    ]
    return _model(nodes, weights)


def run_seconds(file: Path, rows: int) -> float:
    """Measure the shortest of many runs in one thread, in seconds."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.ones((rows, 3, 32, 32), np.float32)}
    shortest, end = np.inf, time.perf_counter() + 0.3
    while time.perf_counter() < end:
        started = time.perf_counter()
        session.run(None, feeds)
        shortest = min(shortest, time.perf_counter() - started)
    return float(shortest)


def _weights(name: str, shape: tuple[int, ...]) -> onnx.TensorProto:
    inputs = np.prod(shape) / max(shape[0], shape[-1])
    return numpy_helper.from_array((np.random.default_rng(0).standard_normal(shape) / inputs).astype(np.float32), name)


def _model(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "waiting",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", _CLASSES])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

"""Model of the benchmarks of replicas: layers of 1,024 by 1,024, as many as a run is to be slow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mnserve.protocol import service_pb2 as pb

_WIDTH = 1024
_MODEL = "layers"


def write_model(repository: Path, depth: int) -> None:
    """Write a repository with the model.

    Args:
        repository: folder to make.
        depth: layers.
    """
    weights = np.random.default_rng(0).normal(scale=_WIDTH**-0.5, size=(depth, _WIDTH, _WIDTH)).astype(np.float32)
    shape: list[str | int | None] = ["batch", _WIDTH]
    names = ["x", *(f"h{layer}" for layer in range(1, depth)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [names[layer], f"w{layer}"], [names[layer + 1]]) for layer in range(depth)],
        _MODEL,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights[layer], f"w{layer}") for layer in range(depth)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (repository / _MODEL / "1").mkdir(parents=True)
    onnx.save(model, str(repository / _MODEL / "1" / "model.onnx"))
    (repository / _MODEL / "config.pbtxt").write_text(f'name: "{_MODEL}"\nmax_batch_size: 32\n')


def request_of(rows: int) -> bytes:
    """Make a request of so many rows."""
    request = pb.ModelInferRequest(model_name=_MODEL)
    request.inputs.add(name="x", datatype="FP32", shape=[rows, _WIDTH])
    request.raw_input_contents.append(np.ones((rows, _WIDTH), np.float32).tobytes())
    return request.SerializeToString()

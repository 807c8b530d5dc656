"""Models whose answers are known: each row is its input times a factor.

Shapes: rows float32 [B, WIDTH].
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 8
MAX_ROWS = 16
FACTORS = {"twice": 2.0, "thrice": 3.0}
"""Factor of each model by its name."""


def write_repository(folder: Path) -> None:
    """Write both models as a repository."""
    for name, factor in FACTORS.items():
        shape: list[str | int | None] = ["batch", WIDTH]
        graph = helper.make_graph(
            [helper.make_node("Mul", ["x", "factor"], ["y"])],
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
            [numpy_helper.from_array(np.array(factor, np.float32), "factor")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        version = folder / name / "1"
        version.mkdir(parents=True)
        onnx.save(model, str(version / "model.onnx"))
        (folder / name / "config.pbtxt").write_text(f'name: "{name}"\nmax_batch_size: {MAX_ROWS}\n')


def expected(name: str, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Compute the answer of a model."""
    return rows * np.float32(FACTORS[name])

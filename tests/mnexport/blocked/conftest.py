"""Fixtures: small graphs that are written node by node."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mnexport.blocked import assemble
from mnexport.blocked.assemble import write_blocked

Array = np.ndarray
CLASSES, ENTRIES = 5, 4


class Sketch:
    """Nodes from ``image`` float32 [B, 3, size, size] to ``logits`` float32 [B, 5].

    Values are called by their operators, or as ``output`` says.
    """

    def __init__(self, size: int = 6) -> None:
        self.size = size
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.outputs = {"logits": 2}
        self._random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str | Array, output: str = "", outputs: int = 1, **settings: Any) -> str:
        """Add a node, whose constants may be arrays, and return the name of its first output."""
        name = output or f"{operator}_{len(self.nodes)}"
        names = [item if isinstance(item, str) else self.constant(item) for item in inputs]
        made = [name, *(f"{name}_{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, names, made, **settings))
        return name

    def constant(self, value: Array, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def numbers(self, *shape: int) -> Array:
        return self._random.standard_normal(shape, np.float32)

    def convolution(self, maps: str, inputs: int, outputs: int, kernel: int = 3, output: str = "") -> str:
        weight = self.numbers(outputs, inputs, kernel, kernel) / np.float32(kernel * inputs**0.5)
        settings = {"kernel_shape": [kernel, kernel], "pads": [kernel // 2] * 4}
        return self.add("Conv", maps, weight, output=output, **settings)

    def ifilm(
        self,
        maps: str,
        channels: int,
        *,
        relu: bool = True,
        scale: Array | None = None,
        axes: tuple[int, int] = (2, 3),
        of_mean: bool = False,
        output: str = "",
    ) -> str:
        """Add iFiLM as it is exported.

        Args:
            maps: [B, C, H, W].
            channels: C.
            relu: a ReLU follows.
            scale: of the normalisation [C].
            axes: of the mean.
            of_mean: divide the mean itself, by the length of the normalised vector.
            output: name of the result.
        """
        scale = self._random.uniform(0.5, 1.5, channels).astype(np.float32) if scale is None else scale
        mean = self.add("ReduceMean", maps, np.array(axes), keepdims=0)
        normalised = self.add("Add", self.numbers(channels), self.add("Mul", mean, scale))
        length = self.add("Clip", self.add("ReduceL2", normalised, np.array([-1]), keepdims=1), np.float32(1e-12))
        unit = self.add("Div", mean if of_mean else normalised, length)
        weights = self.add("Softmax", self.add("MatMul", unit, self.numbers(channels, ENTRIES)), axis=-1)
        affine = self.add("MatMul", weights, self.numbers(ENTRIES, 2 * channels))
        both = self.add("Reshape", affine, np.array([-1, 2 * channels, 1, 1]))
        factor = self.add("Split", both, outputs=2, axis=1, num_outputs=2)
        mapped = self.add("Add", f"{factor}_1", self.add("Mul", maps, factor), output="" if relu else output)
        return self.add("Relu", mapped, output=output) if relu else mapped

    def pooled(self, maps: str, output: str = "") -> str:
        return self.add("ReduceMean", maps, np.array([2, 3]), keepdims=0, output=output)

    def classified(self, features: str, size: int) -> "Sketch":
        """Add the last node, from features [B, size]."""
        self.add("MatMul", features, self.numbers(size, CLASSES), output="logits")
        return self

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "sketch",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, self.size, self.size])],
            [helper.make_tensor_value_info(*item) for item in self._outputs()],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)

    def save(self, path: Path) -> Path:
        onnx.save(self.model(), str(path))
        return path

    def _outputs(self) -> list[tuple[str, int, list[None]]]:
        return [(name, TensorProto.FLOAT, [None] * rank) for name, rank in self.outputs.items()]


@pytest.fixture
def sketch() -> Sketch:
    """An empty graph for images of 6 × 6."""
    return Sketch()


@pytest.fixture
def large_sketch() -> Sketch:
    """An empty graph for images of 16 × 16."""
    return Sketch(16)


def _assert_same_answers(found: Path, expected: Path, size: int) -> None:
    sessions = [ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]) for path in (found, expected)]
    for count in (1, 9):
        images = np.random.default_rng(count).standard_normal((count, 3, size, size), np.float32)
        logits, expected_logits = (session.run(["logits"], {"image": images})[0] for session in sessions)
        np.testing.assert_allclose(logits, expected_logits, atol=2e-5 * max(1, np.abs(expected_logits).max()), rtol=0)


@pytest.fixture
def rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sketch], onnx.ModelProto]:
    """Rewrite a sketch, however many maps leave the layout, and check that the result answers as the sketch does."""
    monkeypatch.setattr(assemble, "_MAX_REORDERED", 9.0)

    def write(sketch: Sketch) -> onnx.ModelProto:
        source, target = sketch.save(tmp_path / "m.onnx"), tmp_path / "cpu.onnx"
        assert write_blocked(source, target) is not None
        _assert_same_answers(target, source, sketch.size)
        return onnx.load(str(target))

    return write

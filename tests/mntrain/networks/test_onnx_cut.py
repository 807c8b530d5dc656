"""Forms of the last linear layer of an ONNX file, and files with several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import parser

from mntrain.errors import DataError
from mntrain.networks.opening import open_network
from mntrain.networks.options import NetworkOptions

HEADER = '<ir_version: 8, opset_import: ["" : 18]> network (float[N, 3, 16, 16] image)'
WEIGHTS = "float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2, 3] wt = {1, 3, 5, 2, 4, 6}, float[2] b = {1, -1}, float t = {4}"
POOLED = "pooled = ReduceMean<keepdims = 0>(image, axes)"


def write(folder: Path, steps: str, outputs: str = "float[N, 2] y") -> Path:
    constants = f"<int64[2] axes = {{2, 3}}, {WEIGHTS}>"
    onnx.save(parser.parse_model(f"{HEADER} => ({outputs}) {constants} {{ {POOLED} {steps} }}"), folder / "n.onnx")
    return folder / "n.onnx"


@pytest.mark.parametrize(
    "steps",
    [
        "c = Constant<value_floats = [2.0, 3.0]>() m = MatMul(pooled, w) y = Add(m, c)",
        "turned = Transpose(wt) m = MatMul(pooled, turned) y = Add(m, b)",
        "turned = Transpose<perm = [1, 0]>(wt) y = Gemm(pooled, turned, b)",
        "m = Gemm<transB = 1>(pooled, wt) y = Add(b, m)",
        "m = Gemm(pooled, w, b) y = Div(m, t)",
        "m = Gemm(pooled, w, b) s = Sub(m, b) y = Mul(t, s)",
    ],
)
def test_forms_of_the_last_layer(tmp_path: Path, images: NDArray[np.uint8], steps: str) -> None:
    file = write(tmp_path, steps)
    network = open_network(str(file))
    assert network.record.output == "pooled"
    assert network.classifier is not None
    (answer,) = onnxruntime.InferenceSession(file).run(None, {"image": images.astype(np.float32) / 255})
    np.testing.assert_allclose(network.classifier.logits(network.embed(images)), answer, atol=1e-5)


@pytest.mark.parametrize("steps", ["m = Gemm(pooled, w, b) y = Div(t, m)", "m = Gemm(pooled, w, b) y = Add(m, m)"])
def test_other_operators_behind_a_layer_are_no_part_of_it(tmp_path: Path, steps: str) -> None:
    assert open_network(NetworkOptions(source=str(write(tmp_path, steps)), output="pooled")).classifier is None


def test_several_outputs_with_a_layer_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = "early = Relu(pooled) aux = Gemm(early, w) late = Neg(pooled) y = Gemm(late, w, b) p = Softmax(y)"
    file = write(tmp_path, steps, "float[N, 2] aux, float[N, 2] y, float[N, 2] p")
    opened = open_network(str(file))
    assert opened.record.output == "early"
    told = capsys.readouterr().err
    assert "'early', the input of the last linear layer of the output 'aux'" in told
    assert "other outputs have one, too: choose --output late for 'y'." in told
    chosen = open_network(NetworkOptions(source=str(file), output="late"))
    assert chosen.classifier is not None, "the layer of the chosen tensor is the classifier"
    assert chosen.classifier.bias.tolist() == [1, -1]


def test_several_layers_on_one_tensor_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "y = Gemm(pooled, w) z = Gemm(pooled, w, b)", "float[N, 2] y, float[N, 2] z")
    classifier = open_network(str(file)).classifier
    assert classifier is not None
    assert classifier.bias.tolist() == [0, 0]
    assert "of the output 'y'; the layers of 'z' on the same tensor are left out" in capsys.readouterr().err


def test_an_input_that_the_features_do_not_need_is_left_out(tmp_path: Path, images: NDArray[np.uint8]) -> None:
    file = write(tmp_path, "y = Gemm(pooled, w) z = Mul(y, heat)")
    model = onnx.load(file)
    model.graph.input.append(onnx.helper.make_tensor_value_info("heat", onnx.TensorProto.FLOAT, [1]))
    onnx.save(model, file)
    network = open_network(str(file))
    np.testing.assert_allclose(network.embed(images), images.mean((2, 3)) / 255, atol=1e-6)
    with pytest.raises(DataError, match=r"from 2 inputs \('image', 'heat'\)"):
        open_network(NetworkOptions(source=str(file), output="z"))


def test_an_empty_file_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "n.onnx").touch()
    with pytest.raises(DataError, match="holds no operators, so it is empty"):
        open_network(str(tmp_path / "n.onnx"))


def test_errors_of_onnx_runtime_come_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, "one = Constant<value_ints = [1, 3]>() f = Reshape(pooled, one) y = Gemm(f, w)")
    with pytest.raises(DataError, match="cannot compute 'f'"):
        open_network(str(file))
    assert "onnxruntime" not in capfd.readouterr().err

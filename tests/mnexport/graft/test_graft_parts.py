"""Cut, operator sets and adapters of small graphs written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from onnx.tools.update_model_dims import update_inputs_outputs_dims

from mnexport.errors import GraphError
from mnexport.graft.adapters import give_pixels_as, vectors_of
from mnexport.graft.cut import cut_network, opset_of_file
from mnexport.graft.opset import grafted_opset, with_opset
from mntrain.networks.onnx_part import names_used

NETWORK = """
<ir_version: 8, opset_import: ["" : 13, "com.example" : 1]>
network (float[N, 3] x, float[3] w) => (float[N, 3] y, float[N, 3] other)
<float[3] w = {1, 2, 3}, float[1] unused = {7}>
{
    scaled = Mul(x, w)
    features = Relu(scaled)
    other = com.example.Mystery(features)
    y = Neg(features)
}
"""


def floats(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def written(text: str, folder: Path) -> Path:
    onnx.save(parser.parse_model(text), folder / "network.onnx")
    return folder / "network.onnx"


def run(model: ModelProto, values: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {session.get_inputs()[0].name: values})[0])


def test_what_the_features_do_not_need_is_left_behind(tmp_path: Path) -> None:
    model = cut_network(written(NETWORK, tmp_path), "features")
    assert [node.op_type for node in model.graph.node] == ["Mul", "Relu"]
    assert [item.name for item in model.graph.initializer] == ["w"]
    assert [item.name for item in model.graph.input] == ["x"], "weights that are listed as inputs are none"


def test_a_batch_that_was_freed_is_free_inside(tmp_path: Path) -> None:
    """The usual tool changes inputs and outputs alone, and leaves the shapes between them."""
    model = parser.parse_model(NETWORK.replace("float[N, 3]", "float[1, 3]").replace("com.example.Mystery", "Neg"))
    model = onnx.shape_inference.infer_shapes(model)
    assert model.graph.value_info
    free = update_inputs_outputs_dims(model, {"x": ["N", 3], "w": [3]}, {name: ["N", 3] for name in ("y", "other")})
    onnx.save(free, tmp_path / "n.onnx")
    found = onnx.shape_inference.infer_shapes(cut_network(tmp_path / "n.onnx", "features"), strict_mode=True)
    shapes = {item.name: [dim.dim_param for dim in item.type.tensor_type.shape.dim] for item in found.graph.value_info}
    assert shapes["scaled"] == ["N", ""]


def test_weights_beside_the_file_come_with_it(tmp_path: Path) -> None:
    model = parser.parse_model(NETWORK)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(floats([1, 2, 3]), "w"))
    onnx.save(model, tmp_path / "n.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    found = cut_network(tmp_path / "n.onnx", "features")
    assert numpy_helper.to_array(found.graph.initializer[0]).tolist() == [1, 2, 3]
    (tmp_path / "weights").unlink()
    with pytest.raises(GraphError, match="keep the files of its weights beside it"):
        cut_network(tmp_path / "n.onnx", "features")


def test_a_node_uses_what_its_branches_take_or_hand_on_from_outside() -> None:
    handed_on = helper.make_graph([], "then", [], [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)])
    taken = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "else",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    node = helper.make_node("If", ["condition"], ["out"], then_branch=handed_on, else_branch=taken)
    assert {"condition", "w", "x"} <= set(names_used(node))


def test_a_file_beyond_two_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    model = parser.parse_model(NETWORK)
    weight = model.graph.initializer[0]
    weight.CopyFrom(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 10**9]))
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights")
    onnx.save(model, tmp_path / "n.onnx")
    with pytest.raises(GraphError, match="one ONNX file holds at most 2,147,483,647"):
        cut_network(tmp_path / "n.onnx", "features")


def test_a_file_of_the_oldest_format_is_brought_to_a_new_operator_set(tmp_path: Path) -> None:
    """Its weights are inputs, too, and one of its operators has got an input in place of an attribute since."""
    file = written(
        """
        <ir_version: 3, opset_import: ["" : 8]>
        old (float[N, 1, 2, 2] x, float[1] w) => (float[N, 1, 4, 4] features)
        <float[1] w = {2}>
        {
            large = Upsample<mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]>(x)
            features = Mul(large, w)
        }
        """,
        tmp_path,
    )
    model = with_opset(cut_network(file, "features"), 20)
    found = run(model, floats([[[[1, 2], [3, 4]]]]))
    assert found[0, 0].tolist() == [[2, 2, 4, 4], [2, 2, 4, 4], [6, 6, 8, 8], [6, 6, 8, 8]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NETWORK.replace("features", "fetures"), "computes no tensor 'features'; the nearest name is 'fetures'"),
        (NETWORK.replace("float[N, 3] x", "float[1, 3] x"), "takes 'x' of shape .*, a fixed batch of 1"),
        (NETWORK.replace("(float[N, 3] x,", "(float[N, 3] x, float[N, 3] more,").replace("Mul(x, w)", "Mul(x, more)"),
         "from 2 inputs"),
    ],
)  # fmt: skip
def test_networks_that_take_or_give_something_else(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=words):
        cut_network(written(text, tmp_path), "features")


def test_a_file_that_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "n.onnx").write_bytes(b"no")
    with pytest.raises(GraphError, match="cannot be read as ONNX"):
        cut_network(tmp_path / "n.onnx", "features")


def test_an_operator_set_is_kept_where_the_other_parts_can_have_it(tmp_path: Path) -> None:
    assert [grafted_opset(own, 20) for own in (9, 17, 18, 21, 25, 30)] == [20, 20, 18, 21, 25, 20]
    file = written(NETWORK, tmp_path)
    assert opset_of_file(file) == 13
    model = cut_network(file, "features")
    assert with_opset(model, 13) is model
    values = floats([[-1, 2, 3]])
    assert run(with_opset(model, 20), values).tolist() == [[0, 4, 9]]


def test_an_operator_without_counterpart_is_told() -> None:
    model = parser.parse_model("""
        <ir_version: 4, opset_import: ["" : 8]>
        old (float[N, 2] x) => (float[N, 2] y)
        { y = Mystery(x) }
    """)
    with pytest.raises(GraphError, match="of ONNX operator set 8 and cannot be brought to 20"):
        with_opset(model, 20)


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (floats([[1, 2]]), None),
        (floats([1, 2]).reshape(1, 1, 1, 2), [[1, 2]]),
        (floats([[[[1, 2]], [[3, 6]]]]), [[2, 4]]),
        (floats([[1, 2]]).astype(np.float16), [[1, 2]]),
        (floats([1, 2]).reshape(1, 2, 1, 1), [[1, 2]]),
        (floats([[[1, 3]], [[2, 4]]]).transpose(1, 0, 2)[:, :, :, None], [[2, 3]]),
        (floats([[[1, 2], [3, 6]]]), [[2, 4]]),
    ],
)
def test_raw_features_become_one_vector_for_each_image(raw: np.ndarray, wanted: object) -> None:
    model = vectors_of(raw, 2, (20, 10), 18)
    if wanted is None:
        assert model is None
        return
    assert model is not None
    onnx.checker.check_model(model, full_check=True)
    found = run(model, raw)
    assert found.dtype == np.float32
    assert found.tolist() == wanted
    assert run(model, np.concatenate([raw, raw])).shape == (2, 2)


def test_features_of_another_width_are_told() -> None:
    with pytest.raises(GraphError, match=r"features of shape \[3\] for each image, and the head takes 2"):
        vectors_of(np.zeros((1, 3), np.float32), 2, (20, 10), 18)


def test_pixels_of_16_bits_are_rounded_before_they_are_converted() -> None:
    """Without that, ONNX Runtime drops the conversion between parts in float32, and features have other bits."""
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) { y = Identity(x) }'
    pixels = parser.parse_model(text)
    give_pixels_as(pixels, TensorProto.FLOAT16)
    (typed,) = pixels.graph.output
    rounded = next(node.input[0] for node in pixels.graph.node if node.output[0] == typed.name)
    typed.name, typed.type.tensor_type.elem_type = rounded, TensorProto.FLOAT
    del pixels.graph.node[-1]
    random = np.random.default_rng(0)
    values = floats(np.concatenate([random.normal(size=5000), random.normal(size=5000) * 2.0**-15, [0, 1, 60000]]))
    found = run(pixels, values)
    np.testing.assert_array_equal(found, found.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(found, values.astype(np.float16).astype(np.float32))


def test_pixels_take_the_type_of_the_network() -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[N, 4] x) => (float[N, 4] y) { y = Identity(x) }'
    values = floats([[-3, 1.5, 2.5, 300]])
    for kind, wanted in ((TensorProto.UINT8, [[0, 2, 3, 255]]), (TensorProto.FLOAT16, values.tolist())):
        pixels = parser.parse_model(text)
        give_pixels_as(pixels, kind)
        onnx.checker.check_model(pixels, full_check=True)
        assert run(pixels, values).tolist() == wanted

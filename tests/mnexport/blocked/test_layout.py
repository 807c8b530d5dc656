"""Filters and maps as ONNX Runtime's blocked kernels read them."""

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper

from mnexport.blocked.layout import DOMAIN, block_size, pack_filter

BLOCK = block_size()
pytestmark = pytest.mark.skipif(BLOCK is None, reason="ONNX Runtime has no blocked layout on this processor")


def run(nodes: list[Any], constants: dict[str, np.ndarray], maps: np.ndarray) -> np.ndarray:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, maps.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.ravel()) for name, value in constants.items()],
    )
    domains = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    result: np.ndarray = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"x": maps}
    )[0]
    return result


@pytest.mark.parametrize("inputs", [3, 16, 48])
def test_a_packed_filter_convolves_as_the_filter_does(inputs: int) -> None:
    assert BLOCK is not None
    generator = np.random.default_rng(0)
    maps = generator.standard_normal((2, inputs, 6, 5), np.float32)
    weight = generator.standard_normal((32, inputs, 3, 3), np.float32)
    packed = pack_filter(weight, BLOCK)
    assert packed.shape == weight.shape
    narrow = inputs < BLOCK
    settings = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1], "dilations": [1, 1], "group": 1}
    nodes = [
        *([] if narrow else [helper.make_node("ReorderInput", ["x"], ["b"], domain=DOMAIN)]),
        helper.make_node("Conv", ["x" if narrow else "b", "w"], ["c"], domain=DOMAIN, **settings),
        helper.make_node("ReorderOutput", ["c"], ["y"], domain=DOMAIN, channels=32),
    ]
    expected = torch.nn.functional.conv2d(torch.from_numpy(maps), torch.from_numpy(weight), padding=1)
    np.testing.assert_allclose(run(nodes, {"w": packed}, maps), expected, atol=1e-4)


def test_the_block_is_the_number_of_channels_side_by_side() -> None:
    assert BLOCK is not None
    maps = np.arange(2 * BLOCK * 6, dtype=np.float32).reshape(1, 2 * BLOCK, 2, 3)
    nodes = [helper.make_node("ReorderInput", ["x"], ["y"], domain=DOMAIN)]
    expected = maps.reshape(1, 2, BLOCK, 2, 3).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(run(nodes, {}, maps).ravel(), expected.ravel())

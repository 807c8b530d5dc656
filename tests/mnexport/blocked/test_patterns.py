"""Recognition of iFiLM, and of graphs that only look like it."""

from typing import Any

import onnx
import pytest

from mnexport.blocked.index import GraphIndex
from mnexport.blocked.patterns import AffineMap, affine_maps

# Values between the maps and the sum, in the order of their nodes, with their ranks.
INNER = {
    "mean": 2, "scaled": 2, "shifted": 2, "length": 2, "limited": 2, "unit": 2, "scores": 2, "weights": 2, "found": 2,
    "both": 4, "factor": 4, "shift": 4, "product": 4,
}  # fmt: skip


def with_ifilm(sketch: Any, **changes: Any) -> list[onnx.NodeProto]:
    """Add a convolution to [B, 16, size, size] and pooled iFiLM, and return the nodes of iFiLM."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16, **changes)
    nodes = list(sketch.nodes[1:])
    sketch.classified(sketch.pooled(maps), 16)
    return nodes


def recognised(sketch: Any) -> list[AffineMap]:
    model = sketch.model()
    onnx.checker.check_model(model, full_check=True)
    return affine_maps(GraphIndex(model))


@pytest.mark.parametrize("relu", [True, False])
def test_ifilm_as_it_is_exported_is_recognised(sketch: Any, relu: bool) -> None:
    nodes = with_ifilm(sketch, relu=relu)
    (affine,) = recognised(sketch)
    assert (affine.channels, affine.relu, affine.result) == (16, relu, nodes[-1].output[0])
    assert {node.output[0] for node in affine.nodes} == {node.output[0] for node in nodes}


@pytest.mark.parametrize("is_output", [True, False])
@pytest.mark.parametrize("inner", INNER)
def test_ifilm_with_a_value_that_is_used_elsewhere_is_not_recognised(sketch: Any, inner: str, is_output: bool) -> None:
    """The value is an output of the graph, or input of another node."""
    names = [name for node in with_ifilm(sketch) for name in node.output]
    name = names[list(INNER).index(inner)]
    sketch.outputs[name if is_output else sketch.add("Neg", name)] = INNER[inner]
    assert recognised(sketch) == []


@pytest.mark.parametrize("axes", [(1, 2), (1, 3)])
def test_a_mean_over_channels_is_no_pooling(large_sketch: Any, axes: tuple[int, int]) -> None:
    """Maps are as high and as wide as there are channels, so that all shapes are those of iFiLM."""
    with_ifilm(large_sketch, axes=axes)
    assert recognised(large_sketch) == []


def test_a_vector_divided_by_the_length_of_another_is_not_recognised(sketch: Any) -> None:
    with_ifilm(sketch, of_mean=True)
    assert recognised(sketch) == []

"""What is recognised as iFiLM, and what only looks like it."""

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
    """A convolution to [B, 16, size, size] and iFiLM, pooled; the nodes of iFiLM."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16, **changes)
    nodes = list(sketch.nodes[1:])
    sketch.classified(sketch.pooled(maps), 16)
    return nodes


def recognised(sketch: Any) -> list[AffineMap]:
    model = sketch.model()
    onnx.checker.check_model(model, full_check=True)
    return affine_maps(GraphIndex(model))


@pytest.mark.parametrize("relu", [True, False])
def test_what_is_exported_is_recognised(sketch: Any, relu: bool) -> None:
    nodes = with_ifilm(sketch, relu=relu)
    (found,) = recognised(sketch)
    assert (found.channels, found.relu, found.result) == (16, relu, nodes[-1].output[0])
    assert {node.output[0] for node in found.nodes} == {node.output[0] for node in nodes}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("inner", INNER)
def test_a_value_that_is_wanted_elsewhere_is_not_done_without(sketch: Any, inner: str, told: bool) -> None:
    """As an output of the graph, or for another node."""
    names = [name for node in with_ifilm(sketch) for name in node.output]
    name = names[list(INNER).index(inner)]
    sketch.outputs[name if told else sketch.add("Neg", name)] = INNER[inner]
    assert recognised(sketch) == []


@pytest.mark.parametrize("axes", [(1, 2), (1, 3)])
def test_a_mean_over_channels_is_no_pooling(large_sketch: Any, axes: tuple[int, int]) -> None:
    """As high and as wide as there are channels: all shapes are those of iFiLM."""
    with_ifilm(large_sketch, axes=axes)
    assert recognised(large_sketch) == []


def test_another_vector_that_is_divided_by_the_length_is_not_taken_for_its_own(sketch: Any) -> None:
    with_ifilm(sketch, of_mean=True)
    assert recognised(sketch) == []

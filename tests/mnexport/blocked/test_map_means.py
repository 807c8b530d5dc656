"""Means of residual sums follow from those of the smaller maps that a convolution widens."""

from typing import Any

import onnx
import pytest

from mnexport.blocked.layout import block_size

pytestmark = pytest.mark.skipif(block_size() is None, reason="ONNX Runtime has no blocked layout on this processor")


def pooled_channels(model: onnx.ModelProto) -> list[int]:
    """Return the channels of each map that is added up in the branch of one image."""
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    graph = next(item.g for item in choice.attribute if item.name == "else_branch")
    shapes = {item.name: list(item.dims) for item in graph.initializer}
    values = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer if len(item.dims) == 1}
    after = {node.input[0]: node for node in graph.node if node.op_type == "Reshape"}
    pools = [node.output[0] for node in graph.node if node.op_type == "GlobalAveragePool"]
    assert shapes
    return [int(values[after[name].input[1]][1]) for name in pools]


def residual(sketch: Any, *, widened: int = 64, kernel: int = 1, first: bool = True, relu: bool = False) -> Any:
    """Add a projection with iFiLM to a convolution, as the first block of a stage does, and iFiLM to the sum."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16)
    shortcut = sketch.ifilm(sketch.convolution(maps, 16, widened, kernel=1), widened, relu=relu)
    inside = sketch.ifilm(sketch.convolution(maps, 16, 16), 16)
    added = [shortcut, sketch.convolution(inside, 16, widened, kernel=kernel)]
    total = sketch.add("Add", *(added if first else reversed(added)))
    return sketch.classified(sketch.pooled(sketch.ifilm(total, widened)), widened)


@pytest.mark.parametrize("first", [True, False])
def test_the_mean_of_a_sum_follows_from_the_map_that_was_widened(sketch: Any, rewritten: Any, first: bool) -> None:
    # Stem, projection, convolution, what was widened, and the features.
    assert pooled_channels(rewritten(residual(sketch, first=first))) == [16, 64, 16, 16, 64]


@pytest.mark.parametrize("settings", [{"kernel": 3}, {"widened": 16}, {"relu": True}])
def test_other_sums_are_added_up_themselves(sketch: Any, rewritten: Any, settings: dict[str, Any]) -> None:
    """A larger kernel sees edges, an equally wide map saves nothing, and a ReLU is no affine map."""
    wide = settings.get("widened", 64)
    assert pooled_channels(rewritten(residual(sketch, **settings))) == [16, wide, 16, wide, wide]


def test_a_sum_of_a_sum_goes_on_from_its_mean(sketch: Any, rewritten: Any) -> None:
    """The next block of a stage: normalisation, convolutions, and the maps themselves as shortcut."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16)
    total = sketch.ifilm(sketch.convolution(maps, 16, 64, kernel=1), 64, relu=False)
    for _ in range(2):
        active = sketch.ifilm(sketch.convolution(maps, 16, 16), 16)
        total = sketch.add("Add", total, sketch.convolution(active, 16, 64, kernel=1))
        maps = sketch.ifilm(sketch.convolution(sketch.ifilm(total, 64), 64, 16, kernel=1), 16)
    assert 64 not in pooled_channels(rewritten(sketch.classified(sketch.pooled(maps), 16)))[2:]

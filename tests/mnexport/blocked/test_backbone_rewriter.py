"""Operators that stay in the blocked layout, and those that must not."""

from typing import Any

import numpy as np
import onnx
import pytest

from mnexport.blocked.layout import block_size

pytestmark = pytest.mark.skipif(block_size() is None, reason="ONNX Runtime has no blocked layout on this processor")


def for_one_image(model: onnx.ModelProto) -> onnx.GraphProto:
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    return next(item.g for item in choice.attribute if item.name == "else_branch")


def operators(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def normalised_behind(graph: onnx.GraphProto) -> bool:
    """Tell if normalisation is computed for each image, and not in the convolution before it."""
    return any(item.name.endswith(":norm.scale") for item in graph.initializer)


@pytest.mark.parametrize(("smallest", "folds"), [(0.5, True), (1e-2, True), (1e-12, False), (0.0, False)])
def test_channels_that_are_scaled_to_nearly_nothing_are_normalised_behind_the_convolution(
    sketch: Any, rewritten: Any, smallest: float, folds: bool
) -> None:
    """The table of iFiLM may scale them up again."""
    scale = np.full(16, 0.7, np.float32)
    scale[3] *= smallest
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16, scale=scale)
    graph = for_one_image(rewritten(sketch.classified(sketch.pooled(maps), 16)))
    assert normalised_behind(graph) is not folds


def test_maps_whose_zeros_stand_elsewhere_are_not_added_in_the_layout(sketch: Any, rewritten: Any) -> None:
    """Lanes of 12 and 12 channels side by side differ from those of 24 channels."""
    parts = [sketch.ifilm(sketch.convolution("image", 3, 12), 12) for _ in range(2)]
    joined = sketch.add("Concat", *parts, axis=1)
    maps = sketch.add("Add", joined, sketch.add("Relu", sketch.convolution("image", 3, 24)))
    graph = for_one_image(rewritten(sketch.classified(sketch.pooled(maps), 24)))
    assert operators(graph).count("ReorderOutput") == 2, "both leave the layout for the sum"


@pytest.mark.parametrize("small", ["GlobalAveragePool", "Conv"])
@pytest.mark.parametrize("small_first", [True, False])
def test_maps_of_different_sizes_are_not_added_in_the_layout(
    sketch: Any, rewritten: Any, small: str, small_first: bool
) -> None:
    """A number for each channel, or a convolution of size 1×1, is added at all positions."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16)
    means = sketch.add("GlobalAveragePool", maps)
    added = [maps, means if small == "GlobalAveragePool" else sketch.convolution(means, 16, 16, kernel=1)]
    total = sketch.add("Add", *(reversed(added) if small_first else added))
    graph = for_one_image(rewritten(sketch.classified(sketch.pooled(total), 16)))
    assert operators(graph).count("ReorderOutput") == 2, "both leave the layout for the sum"


@pytest.mark.parametrize(("axis", "leaves"), [(1, False), (-3, False), (2, True), (3, True), (-1, True), (-2, True)])
def test_only_channels_are_put_side_by_side_in_the_layout(sketch: Any, rewritten: Any, axis: int, leaves: bool) -> None:
    parts = [sketch.ifilm(sketch.convolution("image", 3, 16), 16) for _ in range(2)]
    joined = sketch.add("Concat", *parts, axis=axis)
    graph = for_one_image(rewritten(sketch.classified(sketch.pooled(joined), 16 if leaves else 32)))
    assert ("ReorderOutput" in operators(graph)) is leaves


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(
    ("axes", "keepdims", "size"),
    [([2, 3], 0, 16), ([3, 2], 0, 16), ([2, 3], 1, 16), ([2, 3], None, 16), ([1, 2], 0, 6), ([1, 3], 0, 6)],
)
def test_means_of_other_axes_are_computed_outside_the_layout(
    sketch: Any, rewritten: Any, relu: bool, axes: list[int], keepdims: int | None, size: int
) -> None:
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16, relu=relu)
    mean = sketch.add("ReduceMean", maps, np.array(axes), **({} if keepdims is None else {"keepdims": keepdims}))
    graph = for_one_image(rewritten(sketch.classified(sketch.add("Flatten", mean), size)))
    assert ("ReorderOutput" in operators(graph)) is (size == 6 or keepdims != 0)

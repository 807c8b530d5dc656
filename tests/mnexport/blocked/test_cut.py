"""Where the backbone ends, and what is not cut."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mnexport.blocked.cut import Backbone, find_backbone
from mnexport.blocked.index import GraphIndex
from mnexport.blocked.layout import block_size
from mnexport.blocked.patterns import affine_maps

pytestmark = pytest.mark.skipif(block_size() is None, reason="ONNX Runtime has no blocked layout on this processor")


def backbone_of(sketch: Any) -> Backbone:
    index = GraphIndex(sketch.model())
    found = find_backbone(index, affine_maps(index))
    assert found is not None
    return found


def largest(sketch: Any, maps: str) -> str:
    found: str = sketch.add("ReduceMax", maps, np.array([2, 3]), keepdims=0)
    return found


def means_and_largest(sketch: Any) -> str:
    """Two vectors of the same maps, of which neither is all that follows from the image."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16)
    means = sketch.pooled(maps, output="means")
    found: str = sketch.add("Concat", means, largest(sketch, maps), axis=1, output="features")
    return found


def maps_and_image(sketch: Any) -> str:
    """Vectors of the maps, and others of the image that never were in a convolution."""
    means = sketch.pooled(sketch.ifilm(sketch.convolution("image", 3, 16), 16), output="means")
    found: str = sketch.add("Concat", means, largest(sketch, "image"), axis=1, output="features")
    return found


@pytest.mark.parametrize(("build", "size"), [(means_and_largest, 32), (maps_and_image, 19)])
def test_the_backbone_ends_where_nothing_of_the_image_goes_around(
    sketch: Any, rewritten: Any, build: Callable[[Any], str], size: int
) -> None:
    features = build(sketch)
    sketch.classified(features, size)
    backbone = backbone_of(sketch)
    assert backbone.features == features
    assert {node.output[0] for node in backbone.nodes} == {
        name for node in sketch.nodes for name in node.output[:1] if name != "logits"
    }
    rewritten(sketch)

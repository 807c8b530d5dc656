"""End of the backbone in an exported graph."""

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
    backbone = find_backbone(index, affine_maps(index))
    assert backbone is not None
    return backbone


def largest(sketch: Any, maps: str) -> str:
    vectors: str = sketch.add("ReduceMax", maps, np.array([2, 3]), keepdims=0)
    return vectors


def means_and_largest(sketch: Any) -> str:
    """Join two vectors of the same maps; the backbone ends behind both."""
    maps = sketch.ifilm(sketch.convolution("image", 3, 16), 16)
    means = sketch.pooled(maps, output="means")
    features: str = sketch.add("Concat", means, largest(sketch, maps), axis=1, output="features")
    return features


def maps_and_image(sketch: Any) -> str:
    """Join vectors of the maps with others of the image itself, which passed no convolution."""
    means = sketch.pooled(sketch.ifilm(sketch.convolution("image", 3, 16), 16), output="means")
    features: str = sketch.add("Concat", means, largest(sketch, "image"), axis=1, output="features")
    return features


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

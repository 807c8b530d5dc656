"""Pixels as the image processors of `transformers` make them, held to their forms without torchvision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mntrain.errors import DataError
from mntrain.networks.image_processor import read_processor
from mntrain.networks.opened import InputRule
from mntrain.networks.processor_class import check_processor, find_processor, with_defaults

transformers = pytest.importorskip("transformers")

SIDE = 32
SIZE = {"size": {"height": SIDE, "width": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
EDGE = SIZE | {"size": {"shortest_edge": SIDE}}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def read(values: dict[str, Any]) -> tuple[Any, InputRule]:
    """The processor that ``values`` name, and the rule; skips where the installed release has none."""
    processor = find_processor(transformers, values)
    if processor is None:
        pytest.skip(f"this release of transformers has no {values['image_processor_type']} without torchvision")
    return processor, read_processor(with_defaults(values, processor), "file")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("ViT", SIZE),
        ("ViT", SIZE | {"do_normalize": False}),
        ("ViT", SIZE | {"do_rescale": False, "image_mean": [120.0, 110.0, 100.0], "image_std": [60.0, 61.0, 62.0]}),
        ("Bit", EDGE | {"do_center_crop": True}),
        ("CLIP", EDGE),
        ("CLIP", EDGE | {"image_mean": MEAN, "image_std": STD}),
        ("Siglip", SIZE),
        ("ConvNext", {"size": {"shortest_edge": SIDE}, "crop_pct": 0.875}),
        ("MobileViT", EDGE),
        ("MobileViT", EDGE | {"do_flip_channel_order": False}),
        ("EfficientNet", SIZE),
        ("EfficientNet", SIZE | {"include_top": False, "image_mean": MEAN, "image_std": STD}),
        ("EfficientNet", SIZE | {"include_top": True, "image_mean": MEAN, "image_std": STD}),
        ("EfficientNet", SIZE | {"include_top": True, "do_normalize": False, "image_std": STD}),
        ("EfficientNet", SIZE | {"rescale_factor": 1 / 127.5, "rescale_offset": True}),
        ("EfficientNet", SIZE | {"do_rescale": False, "rescale_offset": True}),
        ("Levit", EDGE),
        ("Beit", SIZE | {"do_reduce_labels": True}),
    ],
)
def test_pixels_are_those_of_the_processor(kind: str, values: dict[str, Any]) -> None:
    processor, rule = read({"image_processor_type": f"{kind}ImageProcessor"} | values)
    picture = np.random.default_rng(1).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    own = processor(picture, do_resize=False, do_center_crop=False, return_tensors="np")["pixel_values"][0]
    mean, std = (np.array(item)[:, None, None] for item in (rule.normalization.mean, rule.normalization.std))
    made = (picture.transpose(2, 0, 1) / 255 - mean) / std
    np.testing.assert_allclose(made[::-1] if rule.reverse_channels else made, own, rtol=1e-4, atol=1e-4)
    assert rule.size == (SIDE, SIDE)
    check_processor(processor, rule, "file")


def test_names_of_older_releases_mean_the_same_processor() -> None:
    for name in ("MobileViTFeatureExtractor", "MobileViTImageProcessorFast"):
        kind = "feature_extractor_type" if name.endswith("Extractor") else "image_processor_type"
        _, rule = read({kind: name, "image_processor_type": name} | EDGE)
        assert rule.reverse_channels


def test_a_change_of_pixels_that_is_not_known_is_refused() -> None:
    with pytest.raises(DataError, match="says do_grayscale, a change of pixels that is not known"):
        read_processor(SIZE | {"do_grayscale": True, "image_mean": MEAN, "image_std": STD}, "file")
    read_processor(SIZE | {"do_grayscale": False, "image_mean": MEAN, "image_std": STD}, "file")
    processor, rule = read({"image_processor_type": "MobileViTImageProcessor", "do_normalize": True} | EDGE)
    with pytest.raises(DataError, match=r"MobileViT.* changes pixels in a way that is not known"):
        check_processor(processor, rule, "file")


def test_settings_without_a_mean_and_a_processor_are_refused() -> None:
    with pytest.raises(DataError, match=r"does not say how images become.*image_std"):
        read_processor(SIZE, "file")

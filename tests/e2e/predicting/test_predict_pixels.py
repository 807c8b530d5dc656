"""One file, the same pixels in training and in prediction: the two packages read images independently."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from mnserve.client.image_fit import ImageFit, fit_image
from mnserve.client.images import PixelSize, read_image

pixels = pytest.importorskip("mntrain.data.reading.pixels", reason="the training extra is not installed")

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(MODES),
    channels=st.sampled_from((1, 3)),
    side=st.none() | st.integers(1, 24),
    fit=st.sampled_from(get_args(ImageFit)),
    width=st.integers(1, 40),
    height=st.integers(1, 40),
    orientation=st.integers(1, 8),
)
@example(mode="L", channels=1, side=8, fit="pad", width=200, height=1, orientation=6)
@example(mode="RGB", channels=3, side=8, fit="crop", width=1, height=200, orientation=1)
def test_training_and_prediction_see_the_same_pixels(
    tmp_path: Path,
    mode: str,
    channels: Literal[1, 3],
    side: int | None,
    fit: ImageFit,
    width: int,
    height: int,
    orientation: int,
) -> None:
    noise = np.random.default_rng(width * 64 + height).integers(0, 256, (height, width, 4)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / ("image.jpg" if mode in ("CMYK", "YCbCr") else "image.png")
    image = Image.fromarray(noise) if mode != "YCbCr" else Image.fromarray(noise[..., :3])
    image.convert(mode).save(path, exif=exif)
    with Image.open(path) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the decoder of training does around this call
        expected = pixels.to_array(opened, color="L" if channels == 1 else "RGB", size=side, name="image", fit=fit)
    found = read_image(path, PixelSize(channels=channels, height=side, width=side), fit=fit)
    own = (width, height) if orientation >= 5 else (height, width)
    assert found.shape == ((side or own[0]), (side or own[1]), channels)
    np.testing.assert_array_equal(found.transpose(2, 0, 1), expected)


def picture() -> Image.Image:
    """A grey picture of 8x4 pixels: two columns each of 10, 20, 30 and 40."""
    return Image.fromarray(np.repeat(np.array([[10, 20, 30, 40]], np.uint8), 2, axis=1).repeat(4, axis=0))


def test_crop_takes_the_largest_centered_square() -> None:
    assert np.asarray(fit_image(picture(), (4, 4), "crop")).tolist() == [[20, 20, 30, 30]] * 4


def test_pad_keeps_the_shape_and_fills_with_black() -> None:
    padded = np.asarray(fit_image(picture(), (8, 8), "pad"))
    assert padded[2:6].tolist() == np.asarray(picture()).tolist()
    assert not padded[:2].any()
    assert not padded[6:].any()


def test_stretch_scales_each_side_by_its_own_factor() -> None:
    expected = picture().resize((4, 4), Image.Resampling.BILINEAR)
    assert fit_image(picture(), (4, 4), "stretch").tobytes() == expected.tobytes()

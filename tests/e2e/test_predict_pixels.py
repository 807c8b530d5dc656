"""One file, the same pixels in training and in prediction: the two packages read images independently."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnserve.client.images import PixelSize, read_image

pixels = pytest.importorskip("mntrain.data.reading.pixels", reason="the training extra is not installed")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [None, 8])
def test_training_and_prediction_see_the_same_pixels(
    tmp_path: Path, mode: str, channels: int, side: int | None
) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (21, 34, 4)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / ("image.jpg" if mode in ("CMYK", "YCbCr") else "image.png")
    image = Image.fromarray(noise) if mode != "YCbCr" else Image.fromarray(noise[..., :3])
    image.convert(mode).save(path, exif=exif)
    with Image.open(path) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the decoder of training does around this call
        expected = pixels.to_array(opened, color="L" if channels == 1 else "RGB", size=side, name="image")
    found = read_image(path, PixelSize(channels=channels, height=side, width=side), resize=True)
    assert found.shape[:2] == (side or 34, side or 21)
    np.testing.assert_array_equal(found.transpose(2, 0, 1), expected)

"""Room of images, told from their heads as their pixels tell it."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from mnserve.client.images import PixelSize, decode_image
from mnserve.errors import MessageTooLargeError
from mnserve.predicting.image_input import ImageInput
from mnserve.predicting.image_room import check_room


def taken(height: int | None, width: int | None) -> ImageInput:
    return ImageInput(
        name="image",
        size=PixelSize(channels=3, height=height, width=width),
        max_batch=8,
        channels_last=False,
        unit_scale=True,
        dtype=np.dtype(np.float32),
    )


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("height", "width"), [(None, None), (None, 48), (20, None), (20, 48)])
def test_the_head_tells_what_the_pixels_are(kind: str, orientation: int, height: int | None, width: int | None) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = BytesIO()
    Image.new("RGB", (60, 32), (1, 2, 3)).save(stream, kind, exif=exif)
    model = taken(height, width)
    pixels = decode_image(stream.getvalue(), "a", model.size, fit="stretch")
    nbytes = pixels.size * 4
    assert check_room(model, stream.getvalue(), "a", nbytes + 5, 5) == nbytes + 5
    with pytest.raises(MessageTooLargeError, match="scale the image down"):
        check_room(model, stream.getvalue(), "a", nbytes + 4, 5)

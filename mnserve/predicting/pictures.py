"""Pictures inside an HTML page.

Shapes: H height and W width in pixels, C channels (1 grey, 3 RGB).
"""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
from PIL import Image

from mnserve.client.images import Pixels

_MAX_SIDE = 256
"""Pixels on the longer side of a picture; larger ones are scaled down to keep the page small."""


def data_uri(pixels: Pixels) -> str:
    """Encodes pixels uint8 [H, W, C] as a ``data:`` address of a PNG."""
    array = np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image = Image.fromarray(array)
    image.thumbnail((_MAX_SIDE, _MAX_SIDE))
    stream = BytesIO()
    image.save(stream, format="PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")

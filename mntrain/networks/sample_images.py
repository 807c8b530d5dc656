"""File of an artifact with the images whose features its samples are.

Shapes: M samples, C channels, H height, W width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

NETWORK_IMAGES = "network_images.safetensors"


def image_file(images: NDArray[np.uint8]) -> bytes:
    """Write ``images`` uint8 [M, C, H, W] as the content of ``network_images.safetensors``."""
    return save({"images": np.ascontiguousarray(images)})

"""Bring pictures to one size, by one of three rules.

``mnserve`` has its own twin, since it may not import this package; a test holds the two equal byte by byte.
"""

from __future__ import annotations

from PIL import Image, ImageOps

from mntrain.data.config import ImageFit


def fit_image(image: Image.Image, size: tuple[int, int], fit: ImageFit) -> Image.Image:
    """Bring a grey or RGB picture to ``size`` (width, height); one of that size is returned as it is.

    All scaling is bilinear with antialiasing. ``stretch`` scales both sides. ``crop`` scales the largest centered part
    that has the shape of ``size``. ``pad`` scales the picture to the largest that fits (a side of half a pixel or less
    becomes one), and centers it on black; where it cannot be centered, it is a pixel nearer to the top or left.
    """
    if image.size == size:
        return image
    if fit == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    if fit == "pad":
        scaled = image.resize(_largest_within(image.size, size), Image.Resampling.BILINEAR)
        canvas = Image.new(image.mode, size)
        canvas.paste(scaled, ((size[0] - scaled.width) // 2, (size[1] - scaled.height) // 2))
        return canvas
    return image.resize(size, Image.Resampling.BILINEAR)


def _largest_within(own: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    (width, height), (most_width, most_height) = own, size
    if width * most_height >= height * most_width:
        return most_width, max(1, (2 * height * most_width + width) // (2 * width))
    return max(1, (2 * width * most_height + height) // (2 * height)), most_height

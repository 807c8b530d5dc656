"""Normalisation and size that a folder of Hugging Face asks for, read without its image processor.

The processors themselves need torchvision; their settings are plain JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.errors import DataError
from mntrain.networks.opened import InputRule

IMAGENET = PreprocessingConfig(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
"""Mean and deviation of RGB pixels in 0..1 of ImageNet, which most networks were trained with."""
_SIDE = 224


def read_processor(values: Mapping[str, Any], where: str) -> InputRule:
    """Read settings of an image processor.

    The size is that after the center crop, where there is one. Files are cropped to it where the processor crops or
    keeps the proportions, else stretched. Interpolation is bilinear, whatever ``resample`` says.

    Args:
        values: of ``preprocessor_config.json``.
        where: the file, for messages.

    Raises:
        DataError: a value that cannot be.
    """
    try:
        crops = bool(values.get("do_center_crop")) and values.get("crop_size") is not None
        size, proportions = _size(values["crop_size"] if crops else values.get("size", _SIDE))
        return InputRule(
            normalization=_normalization(values),
            size=size,
            fit="crop" if crops or proportions else "stretch",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{where} does not say how images become the network's input ({error!r}); correct its size, image_mean "
            "and image_std."
        ) from error


def default_rule(config: Any) -> InputRule:
    """Make the rule of a network without settings of a processor: its configured size, else 224, and ImageNet's mean.

    Args:
        config: of the network; ``image_size`` and ``num_channels`` count.
    """
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", None) or 3
    height, width = (size, size) if isinstance(size, int) else tuple(size or (_SIDE, _SIDE))
    normalization = IMAGENET if channels == 3 else PreprocessingConfig(mean=(0.5,) * channels, std=(0.5,) * channels)
    return InputRule(normalization=normalization, size=(int(height), int(width)), fit="crop")


def _size(size: Any) -> tuple[tuple[int, int], bool]:
    """Height and width, and whether the processor keeps the proportions of a picture."""
    if isinstance(size, Mapping):
        edge = size.get("shortest_edge")
        if edge is None:
            return (_side(size["height"]), _side(size["width"])), False
        return (_side(edge), _side(edge)), True
    if isinstance(size, (list, tuple)):
        height, width = size
        return (_side(height), _side(width)), False
    return (_side(size), _side(size)), False


def _side(value: Any) -> int:
    side = int(value)
    if not 1 <= side <= 4096:
        raise ValueError(f"side {side}, expected 1 to 4096 pixels")
    return side


def _normalization(values: Mapping[str, Any]) -> PreprocessingConfig:
    mean, std = values.get("image_mean"), values.get("image_std")
    if not values.get("do_normalize", True) or mean is None or std is None:
        mean, std = (0.0,) * 3, (1.0,) * 3
    factor = float(values.get("rescale_factor") or 1 / 255) if values.get("do_rescale", True) else 1.0
    # Pixels in 0..1 times `largest` are what the processor subtracts its mean from; some subtract 1 first.
    largest = factor * 255
    if math.isclose(largest, 1.0, rel_tol=1e-5):
        largest = 1.0
    offset = 1.0 if values.get("rescale_offset") else 0.0
    return PreprocessingConfig(
        mean=tuple((float(value) + offset) / largest for value in mean),
        std=tuple(float(value) / largest for value in std),
    )

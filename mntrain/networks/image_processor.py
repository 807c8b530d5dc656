"""Normalisation and size that a folder of Hugging Face asks for, read from the settings of its image processor.

Most processors themselves need torchvision; their settings are plain JSON.
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
_KNOWN = frozenset(
    {
        "do_resize",
        "do_center_crop",
        "do_rescale",
        "do_normalize",
        "do_flip_channel_order",
        "do_convert_rgb",  # files are read in the network's own colour
        "do_reduce_labels",  # acts on labels alone
        "do_convert_annotations",
    }
)


def read_processor(values: Mapping[str, Any], where: str) -> InputRule:
    """Read settings of an image processor.

    The size is that after the center crop, where there is one. Files are cropped to it where the processor crops or
    keeps the proportions, else stretched. Interpolation is bilinear, whatever ``resample`` says.

    Args:
        values: of ``preprocessor_config.json``, with the defaults of its processor where these are known.
        where: the file, for messages.

    Raises:
        DataError: a value that cannot be, or a change of pixels that is not known here.
    """
    unknown = sorted(name for name, value in values.items() if name.startswith("do_") and name not in _KNOWN and value)
    if unknown:
        raise DataError(
            f"{where} says {unknown[0]}, a change of pixels that is not known here; choose another network, or export "
            "this one to ONNX behind its own way of pixels."
        )
    try:
        crops = bool(values.get("do_center_crop")) and values.get("crop_size") is not None
        size, proportions = _size(values["crop_size"] if crops else values.get("size", _SIDE))
        return InputRule(
            normalization=_normalization(values),
            size=size,
            fit="crop" if crops or proportions else "stretch",
            reverse_channels=bool(values.get("do_flip_channel_order")),
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
    """Mean and deviation of pixels in 0..1.

    Raises:
        KeyError: pixels are normalised, and the settings do not say by what.
    """
    rescales, normalizes = values.get("do_rescale", True), values.get("do_normalize", True)
    largest = 255 * float(values.get("rescale_factor") or 1 / 255) if rescales else 255.0
    # Pixels in 0..1 times `largest` are what the processor subtracts its mean from; some subtract 1 first.
    if math.isclose(largest, 1.0, rel_tol=1e-5):
        largest = 1.0
    offset = 1.0 if rescales and values.get("rescale_offset") else 0.0
    top = values.get("include_top")
    given = _channels(values["image_std"]) if normalizes or top else (1.0,) * 3
    mean = _channels(values["image_mean"]) if normalizes else (0.0,) * len(given)
    std = given if normalizes else (1.0,) * len(given)
    if top:  # EfficientNet's own classifiers divide once more
        std = tuple(first * second for first, second in zip(std, given, strict=True))
    return PreprocessingConfig(
        mean=tuple((value + offset) / largest for value in mean), std=tuple(value / largest for value in std)
    )


def _channels(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in (values if isinstance(values, (list, tuple)) else (values,) * 3))

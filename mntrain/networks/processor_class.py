"""The image processor of a folder of Hugging Face, in its form without torchvision: its defaults, and a trial.

Shapes: H' height and W' width of the network's input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from mntrain.errors import DataError
from mntrain.networks.opened import InputRule
from mntrain.networks.pixels import NetworkInput
from mntrain.networks.record import PixelRule

_KINDS = ("image_processor_type", "feature_extractor_type")
_SETTINGS = ("image_mean", "image_std", "rescale_factor", "rescale_offset", "include_top")
_TOLERANCE = 1e-3
"""Largest difference of inputs, over the largest input."""


def find_processor(library: Any, values: Mapping[str, Any]) -> Any | None:
    """Make the processor that a file names.

    Args:
        library: ``transformers``.
        values: of the file.

    Returns:
        The processor; None where the file names none, or none that works on arrays without torchvision.
    """
    name = next((str(values[kind]) for kind in _KINDS if values.get(kind)), None)
    if name is None:
        return None
    base = name.removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor")
    # The file may come from anybody: it chooses among processors of images alone.
    for candidate in (f"{base}Pil", base) if base.endswith("ImageProcessor") else ():
        try:
            return getattr(library, candidate)(**{key: item for key, item in values.items() if key not in _KINDS})
        except Exception:  # noqa: BLE001 - dummies of missing packages raise as they like; the file alone counts then
            continue
    return None


def with_defaults(values: Mapping[str, Any], processor: Any) -> dict[str, Any]:
    """Fill in what a file leaves to its processor.

    Args:
        values: of the file.
        processor: made from it.
    """
    filled = {**values, **processor.to_dict()}
    # What the processor leaves unset counts as false, and its plain form leaves that out.
    flags = {name for name in (*values, *dir(processor)) if name.startswith("do_")}
    return filled | {name: getattr(processor, name, None) or False for name in sorted(flags)} | _set(processor)


def check_processor(processor: Any, rule: InputRule, where: str) -> None:
    """Hold a rule to the processor: both make the same input of a picture that has the network's size.

    Args:
        processor: of the network.
        rule: read from its settings.
        where: the file, for messages.

    Raises:
        DataError: they do not.
    """
    height, width = rule.size or (1, 1)
    shape = (rule.channels, height, width)
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    try:
        answer = processor(
            picture, do_resize=False, do_center_crop=False, input_data_format="channels_first", return_tensors="np"
        )
    except Exception:  # noqa: BLE001 - a processor that takes no such picture proves nothing
        return
    given = np.asarray(answer.get("pixel_values", ()), dtype=np.float32)
    pixels = NetworkInput(
        PixelRule(
            channels=rule.channels,
            height=height,
            width=width,
            mean=rule.normalization.mean,
            std=rule.normalization.std,
            reverse_channels=rule.reverse_channels,
        )
    ).eval()
    with torch.inference_mode():
        own = pixels(torch.from_numpy(picture[None])).numpy()
    if given.shape != own.shape or not np.abs(given - own).max() <= _TOLERANCE * np.abs(given).max():
        raise DataError(
            f"{where}: {type(processor).__name__} changes pixels in a way that is not known here; export the network "
            "to ONNX behind its own way of pixels, or choose another."
        )


def _set(processor: Any) -> dict[str, Any]:
    found = {name: getattr(processor, name, None) for name in _SETTINGS}
    return {name: value for name, value in found.items() if value is not None}

"""Image input of a model, read from its configuration.

Shapes: B images in a batch, C channels (1 grey, 3 RGB), H height and W width in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnserve.client.image_fit import IMAGE_FITS, ImageFit
from mnserve.client.images import Pixels, PixelSize
from mnserve.errors import ImageModelError
from mnserve.protocol import model_config_pb2 as pb
from mnserve.text.json_text import parse_json

_FLOATS = {pb.TYPE_FP16: "<f2", pb.TYPE_FP32: "<f4", pb.TYPE_FP64: "<f8"}


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """Layout and scale of the one input of a model of images."""

    name: str
    """Name of the input."""
    dtype: np.dtype[Any]
    """Element type of the array that is sent."""
    unit_scale: bool
    """Pixels are sent as 0..1 instead of 0..255."""
    channels_last: bool
    """The array is [B, H, W, C] instead of [B, C, H, W]."""
    size: PixelSize
    """Channels, height and width."""
    max_batch: int
    """Images that one call may carry."""
    fit: ImageFit | None = None
    """Rule by which training brought images to the size; None where the model states none."""
    alone: bool = False
    """The one image of a call has no batch dimension."""
    assumed: tuple[str, ...] = ()
    """Assumptions in place of missing settings, as sentences for the user."""

    @classmethod
    def from_config(cls, config: pb.ModelConfig) -> ImageInput:
        """Reads inputs, ``max_batch_size`` and the parameter ``mn.input`` of a model.

        Without ``mn.input`` the layout follows from the declared format, or from the dimension of size 1 or 3. Three
        channels are RGB, and float pixels are 0..1.

        Raises:
            ImageModelError: The model does not take one image; the message lists its inputs.
        """
        required = [tensor for tensor in config.input if not tensor.optional]
        inputs = ", ".join(
            f"{tensor.name} {pb.DataType.Name(tensor.data_type).removeprefix('TYPE_')} {list(tensor.dims)}"
            for tensor in required
        )
        refusal = f"model '{config.name}' takes {inputs or 'no input'}; "
        if len(required) != 1:
            raise ImageModelError(
                f"{refusal}predict feeds models with exactly one input, an image; call it through a client instead"
            )
        image = required[0]
        dims = tuple(image.dims)
        max_batch = config.max_batch_size or 1
        alone = config.max_batch_size == 0 and len(dims) == 3
        if config.max_batch_size == 0 and len(dims) == 4 and dims[0] in (-1, 1):
            dims = dims[1:]  # the model has a batch dimension of its own, and gets one image at a time
        if len(dims) != 3:
            raise ImageModelError(
                f"{refusal}an image has three dimensions, [C,H,W] or [H,W,C]; call it through a client instead"
            )
        stated = _stated_input(config)
        channels_last = _channels_last(dims, image.format, stated)
        channels, height, width = (dims[2], dims[0], dims[1]) if channels_last else dims
        if channels not in (1, 3):
            raise ImageModelError(
                f"{refusal}an image has 1 (grey) or 3 (RGB) channels, not {channels}; call it through a client instead"
            )
        if image.data_type != pb.TYPE_UINT8 and image.data_type not in _FLOATS:
            raise ImageModelError(f"{refusal}images are sent as UINT8 or as floats; call it through a client instead")
        is_float = image.data_type in _FLOATS
        assumed = []
        if "scale" not in stated and is_float:
            assumed.append(f"model '{config.name}' does not say how pixels are scaled (mn.input); 0..1 is assumed")
        return cls(
            name=image.name,
            dtype=np.dtype(_FLOATS[image.data_type] if is_float else "u1"),
            unit_scale=stated.get("scale", "0..1" if is_float else "0..255") == "0..1",
            channels_last=channels_last,
            size=PixelSize(
                channels=channels, height=None if height < 0 else height, width=None if width < 0 else width
            ),
            max_batch=max_batch,
            fit=stated.get("fit"),
            alone=alone,
            assumed=tuple(assumed),
        )

    def has_room(self, images: Sequence[Pixels], image: Pixels, most_bytes: int) -> bool:
        """Returns True if a call with ``images``, one at least, may carry ``image`` too: of one size, in few bytes."""
        if image.shape != images[0].shape or len(images) >= self.max_batch:
            return False
        return (len(images) + 1) * image.size * self.dtype.itemsize <= most_bytes

    def encode(self, images: Sequence[Pixels]) -> NDArray[Any]:
        """Encodes images uint8 [H, W, C] of one size as the batch [B, C, H, W] or [B, H, W, C].

        A model that takes one image without a batch dimension gets [C, H, W] or [H, W, C].
        """
        batch: NDArray[Any] = np.stack(images)
        if not self.channels_last:
            batch = batch.transpose(0, 3, 1, 2)
        if self.unit_scale:
            # Divided in float32 and then rounded to the type of the input, as in training.
            batch = batch.astype(np.float32) / np.float32(255.0)
        return np.ascontiguousarray(batch[0] if self.alone else batch, dtype=self.dtype)


def _stated_input(config: pb.ModelConfig) -> dict[str, Any]:
    """Reads the parameter ``mn.input`` as a dictionary; empty without the parameter."""
    if "mn.input" not in config.parameters:
        return {}
    text = config.parameters["mn.input"].string_value
    try:
        stated = parse_json(text)
    except ValueError:
        stated = None
    known: dict[str, tuple[str, ...]] = {
        "layout": ("NCHW", "NHWC"),
        "color": ("L", "RGB"),
        "scale": ("0..1", "0..255"),
        "fit": IMAGE_FITS,
    }
    if not isinstance(stated, dict) or any(
        key in stated and stated[key] not in values for key, values in known.items()
    ):
        raise ImageModelError(
            f"model '{config.name}' has the parameter mn.input = {text!r}, which is not a JSON object "
            'such as {"layout": "NCHW", "color": "RGB", "scale": "0..255"}; correct its config.pbtxt'
        )
    return stated


def _channels_last(dims: Sequence[int], declared: int, stated: dict[str, Any]) -> bool:
    if "layout" in stated:
        return bool(stated["layout"] == "NHWC")
    if declared in (pb.ModelInput.FORMAT_NHWC, pb.ModelInput.FORMAT_NCHW):
        return declared == pb.ModelInput.FORMAT_NHWC
    return dims[0] not in (1, 3) and dims[2] in (1, 3)

"""Input of an ONNX file: one tensor of images, of any batch.

Shapes: B images, C channels, H' height, W' width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.errors import ConfigError, DataError
from mntrain.networks.libraries import onnx_library
from mntrain.networks.opened import InputRule
from mntrain.networks.options import NetworkOptions
from mntrain.networks.record import Layout

_TYPES = ("float32", "float16", "float64", "uint8")


@dataclass(frozen=True, kw_only=True)
class OnnxInput:
    """Input of an ONNX graph.

    Args:
        name: of the tensor.
        dtype: numpy's name of its type.
        dims: its size; None for an axis of any size.
        layout: NCHW or NHWC.
    """

    name: str
    dtype: str
    dims: tuple[int | None, ...]
    layout: Layout

    @property
    def channels(self) -> int | None:
        """C; None where the file does not say."""
        return self.dims[1 if self.layout == "NCHW" else 3]

    @property
    def size(self) -> tuple[int, int] | None:
        """H' and W'; None where the file takes any."""
        height, width = self.dims[2:] if self.layout == "NCHW" else self.dims[1:3]
        return None if height is None or width is None else (height, width)


def find_input(inputs: Sequence[Any], where: str, layout: Layout | None) -> OnnxInput:
    """Find the input of images.

    Args:
        inputs: of the ONNX file, those that the features need.
        where: the file, for messages.
        layout: as the user says; None reads it from the shape.

    Raises:
        DataError: several inputs, one that is no image, or a fixed batch.
        ConfigError: the shape does not tell the layout, or contradicts it.
    """
    if len(inputs) != 1:
        names = ", ".join(repr(value.name) for value in inputs) or "none"
        raise DataError(
            f"{where} computes the features from {len(inputs)} inputs ({names}); it must be from images alone. Export "
            "the part of the network that takes one tensor of images."
        )
    described = inputs[0].type.tensor_type
    dims = tuple(dim.dim_value or None for dim in described.shape.dim)
    dtype = np.dtype(onnx_library().helper.tensor_dtype_to_np_dtype(described.elem_type)).name
    if len(dims) != 4 or dtype not in _TYPES:
        raise DataError(
            f"{where} takes {inputs[0].name!r} of {dtype} {_shape(dims)}, which is no batch of images; it must be "
            f"[batch, channels, height, width] or [batch, height, width, channels] of {' or '.join(_TYPES)}."
        )
    if dims[0] is not None:
        raise DataError(_fixed_batch(where, inputs[0].name, dims))
    return OnnxInput(name=inputs[0].name, dtype=dtype, dims=dims, layout=layout or _layout(dims, where))


def input_rule(found: OnnxInput, options: NetworkOptions, where: str) -> InputRule:
    """Turn what the user says of pixels into units of pixels in 0..1, in the order RGB.

    Raises:
        ConfigError: means or deviations for another number of channels.
    """
    given = len(options.mean or options.std or ())
    channels = found.channels or given or 3
    if channels not in (1, 3):
        raise ConfigError(
            f"{where} takes images of {channels} channels with --layout {found.layout}; it must be 1 or 3."
        )
    mean, std = options.mean or (0.0,) * channels, options.std or (1.0,) * channels
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels):
            raise ConfigError(f"--{name} has {len(values)} values, but {where} takes {channels} channels.")
    mean, std = (values * channels if len(values) == 1 else values for values in (mean, std))
    scale = 255.0 if found.dtype == "uint8" and options.scale == 1.0 else options.scale
    reverse = options.channel_order == "BGR" and channels == 3
    order = slice(None, None, -1) if reverse else slice(None)
    return InputRule(
        normalization=PreprocessingConfig(
            mean=tuple(value / scale for value in mean[order]), std=tuple(value / scale for value in std[order])
        ),
        size=found.size,
        fit="crop",
        layout=found.layout,
        reverse_channels=reverse,
    )


def _layout(dims: tuple[int | None, ...], where: str) -> Layout:
    first, last = dims[1] in (1, 3), dims[3] in (1, 3)
    if first == last:
        raise ConfigError(
            f"{where} takes images of shape {_shape(dims)}, which does not tell where the channels are; say --layout "
            "NCHW or --layout NHWC."
        )
    return "NCHW" if first else "NHWC"


def _shape(dims: tuple[int | None, ...]) -> str:
    return f"[{', '.join('any' if dim is None else str(dim) for dim in dims)}]"


def _fixed_batch(where: str, name: str, dims: tuple[int | None, ...]) -> str:
    free = "{" + f"{name!r}: {{0: 'batch'}}" + "}"
    return (
        f"{where} takes exactly {dims[0]} image(s) at a time: its input {name!r} has the shape {_shape(dims)}. Export "
        f"it again with a free first axis, in PyTorch torch.onnx.export(…, dynamic_axes={free}); where nothing inside "
        "depends on the batch, onnx.tools.update_model_dims.update_inputs_outputs_dims frees it in the file."
    )

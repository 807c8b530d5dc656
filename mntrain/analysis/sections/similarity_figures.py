"""Drawings of learned similarities.

Shapes: M [K] or [K, K] of K = k² taps; maps [n, channels, H, W] of n images.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mntrain.analysis.sections.content import Figure, figure
from mntrain.analysis.similarity import LearnedMixing, LearnedSimilarity
from mntrain.data.images import ImageArray
from mntrain.plotting.panels import Panel, Shades, draw_panels, panel_size

_SIDE = 1.6  # inches of a panel beside an image


def matrices_figure(layers: list[LearnedSimilarity]) -> Figure:
    """Draw M of each layer, of dynamic layers its mean; of an unconstrained one M − I, since I would outshine it."""
    diagonal, dynamic = layers[0].diagonal, layers[0].maps is not None
    panels = [
        Panel(
            pixels=_square(one.mean if diagonal else one.mean - torch.eye(len(one.mean))),
            title=one.name,
            note=f"|M − I| {one.distance:.3g}",
        )
        for one in layers
    ]
    drawn = "M" if diagonal else "M − I"
    seen = (
        "a square is a tap of the kernel, and white is 1"
        if diagonal
        else "rows are taps of the kernel, columns those of the patch, and white is 0"
    )
    of_all = ", mean over images and positions," if dynamic else ""
    return _panels(
        "similarity-matrices",
        panels,
        Shades.around(1 if diagonal else 0, [panel.pixels for panel in panels], drawn),
        alt=f"{drawn}{of_all} of {len(layers)} layers; |M − I| is {_spread(layers)}",
        caption=f"{drawn}{of_all} of each layer: {seen}, so that all white is an ordinary convolution. Above it |M − I|"
        + (", mean over images and positions" if dynamic else ""),
    )


def deviations_figure(layers: list[LearnedSimilarity]) -> Figure:
    """Draw how far the predicted M of each dynamic layer varies."""
    parts = [(one, one.deviation) for one in layers if one.deviation is not None]
    panels = [Panel(pixels=_square(deviation), title=one.name) for one, deviation in parts]
    largest = max(float(deviation.max()) for _, deviation in parts)
    return _panels(
        "similarity-deviations",
        panels,
        Shades.upwards([panel.pixels for panel in panels], "deviation"),
        alt=f"Deviation of M of {len(parts)} layers, up to {largest:.3g}",
        caption="Standard deviation of the same numbers over images and positions: where it is 0, a layer does not "
        "look at the patch",
    )


def shapes_figure(layers: list[LearnedSimilarity]) -> Figure:
    """Draw the taps that each kernel shape keeps."""
    parts = [(one, one.shape) for one in layers if one.shape is not None]
    panels = [
        Panel(
            pixels=shape.view(one.kernel, one.kernel).numpy(),
            title=one.name,
            note=f"{one.taps} of {one.kernel**2} taps",
        )
        for one, shape in parts
    ]
    kept, all_taps = sum(one.taps for one, _ in parts), sum(one.kernel**2 for one, _ in parts)
    return _panels(
        "similarity-shapes",
        panels,
        Shades(colors="gray_r", low=0, high=1),
        alt=f"Kernel shapes of {len(parts)} layers: {kept} of {all_taps} taps stay",
        caption="Kernel shape D by layer: black taps stay, white ones are dropped",
    )


def maps_figure(layers: list[LearnedSimilarity], images: ImageArray) -> Figure:
    """Draw what the first, a middle and the last dynamic layer predict for images uint8 [n, channels, H, W]."""
    parts = [(one, one.maps) for one in layers if one.maps is not None]
    parts = [parts[index] for index in sorted({0, len(parts) // 2, len(parts) - 1})]
    diagonal = parts[0][0].diagonal
    panels = []
    for index, image in enumerate(images):
        panels.append(Panel(pixels=np.moveaxis(image, 0, -1), title="" if index else "image"))
        panels.extend(Panel(pixels=_tiles(maps[index]), title="" if index else one.name) for one, maps in parts)
    numbers = [panel.pixels for panel in panels if panel.pixels.ndim == 2]
    shades = Shades.around(1, numbers, "m_k(p)") if diagonal else Shades.upwards(numbers, "|M(p) − I|")
    kernel = parts[0][0].kernel
    what = (
        f"the maps m_k(p), one for each tap k, laid out as the {kernel}×{kernel} kernel; red tells where the tap "
        "counts for more than in an ordinary convolution, blue for less"
        if diagonal
        else "the distance |M(p) − I| from an ordinary convolution at each position"
    )
    names = ", ".join(one.name for one, _ in parts)
    return _panels(
        "similarity-maps",
        panels,
        shades,
        alt=f"{_named(images)} with what layers {names} predict for them, "
        f"from {min(float(np.nanmin(part)) for part in numbers):.3g} to "
        f"{max(float(np.nanmax(part)) for part in numbers):.3g}",
        caption=f"{_named(images)} followed by {what}",
        columns=len(parts) + 1,
    )


def across_figure(layers: list[LearnedMixing], images: ImageArray) -> Figure:
    """Draw which positions one position of images uint8 [n, channels, H, W] takes from, by layer."""
    panels = []
    if layers[0].mode == "static":  # the same for all images
        images = images[:1]
    for index, image in enumerate(images):
        panels.append(Panel(pixels=np.moveaxis(image, 0, -1), title="" if index else "image", mark=_mark(layers[0])))
        for one in layers:
            row = one.rows[index].numpy()
            shades = Shades.upwards([row]) if one.mode == "attention" else Shades.around(0, [row])
            note = f"to {shades.high:.2g}" if one.mode == "attention" else f"to ±{shades.high:.2g}"
            panels.append(Panel(pixels=row, title=one.name, note=note, shades=shades, mark=_mark(one)))
    gates = ", ".join(f"{one.gate:.3g}" for one in layers if one.gate is not None)
    kind = "attention" if layers[0].mode == "attention" else "similarity"
    return _panels(
        "similarity-across",
        panels,
        Shades(colors="viridis", low=0, high=1),
        alt=f"{_named(images)} with the {kind} of the middle position to all others in {len(layers)} layers",
        caption=f"{_named(images)} followed by the {kind} of the marked position to every position, on scales "
        "of their own" + (f"; it is added times the gate, which is {gates}" if gates else ""),
        columns=len(layers) + 1,
    )


def _panels(
    name: str, panels: list[Panel], shades: Shades, *, alt: str, caption: str, columns: int | None = None
) -> Figure:
    size = panel_size(len(panels)) if columns is None else panel_size(len(panels), columns, _SIDE)
    wanted = {} if columns is None else {"columns": columns}
    return figure(
        name, lambda drawing: draw_panels(drawing, panels, shades, **wanted), alt=alt, caption=caption, size=size
    )


def _square(matrix: Tensor) -> NDArray[Any]:
    side = round(len(matrix) ** 0.5)
    return (matrix.view(side, side) if matrix.dim() == 1 else matrix).numpy()


def _tiles(maps: Tensor) -> NDArray[Any]:
    """Lay out maps [K, H, W] as the taps of a kernel, with gaps of NaN."""
    side = round(len(maps) ** 0.5)
    gap = max(1, maps.shape[-1] // 12)
    height, width = maps.shape[1] + gap, maps.shape[2] + gap
    tiles = np.full((side * height - gap, side * width - gap), np.nan)
    for tap, values in enumerate(maps.numpy()):
        down, right = tap // side * height, tap % side * width
        tiles[down : down + height - gap, right : right + width - gap] = values
    return tiles


def _named(images: ImageArray) -> str:
    return "A test image" if len(images) == 1 else f"{len(images)} test images, each"


def _mark(layer: LearnedMixing) -> tuple[float, float]:
    height, width = layer.rows.shape[1:]
    return (layer.position[0] + 0.5) / height, (layer.position[1] + 0.5) / width


def _spread(layers: list[LearnedSimilarity]) -> str:
    distances = [one.distance for one in layers]
    return f"{min(distances):.3g} to {max(distances):.3g}"

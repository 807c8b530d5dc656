"""Contact sheet: images of each class and split as they go into the model, and images that occur in two splits.

Shapes: N images, C channels, H height, W width in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from PIL import Image

from mntrain.analysis.sections.content import Picture, Section, Strip, picture
from mntrain.data.duplicates import Pair
from mntrain.data.images import ImageArray, ImageData
from mntrain.data.split_record import SPLITS

_PICTURES = 1200
_OF_CLASS = 8
_CLASSES = 400
_SIDE = 96


def image_sections(data: ImageData) -> list[Section]:
    """Make a section of images in two splits and one of contradictions, where there are any, and one for each split."""
    found = [_shared(data), _contradictions(data), *(_split(data, name) for name in SPLITS)]
    return [section for section in found if section is not None]


def _split(data: ImageData, name: str) -> Section:
    part, shown = data.part(name), min(data.num_classes, _CLASSES)
    each = max(1, min(_OF_CLASS, _PICTURES // (len(SPLITS) * shown)))
    strips = []
    for label in range(shown):
        members = np.flatnonzero(part.labels == label)
        if len(members):
            # Spread over the class: files of one name or day lie side by side.
            chosen = members[np.linspace(0, len(members) - 1, min(each, len(members))).astype(np.int64)]
            pictures = tuple(_picture(data, name, int(position)) for position in chosen)
            strips.append(Strip(label=f"{data.label_names[label]} · {len(members):,}", pictures=pictures))
    size = f"{data.width}x{data.height} pixels, {'grey' if data.channels == 1 else 'RGB'}"
    shrunk = f"; drawn here at {_SIDE} pixels at most" if max(data.height, data.width) > _SIDE else ""
    left_out = f" {data.num_classes - shown:,} more classes are not shown." if data.num_classes > shown else ""
    return Section(
        anchor=name,
        title=f"Images of {name}",
        text=(
            f"Up to {each} of each class, spread evenly over it, as they go into the model before augmentation "
            f"({size}){shrunk}.{left_out}",
        ),
        strips=tuple(strips),
        numbers={"pictures": sum(len(strip.pictures) for strip in strips)},
    )


def _shared(data: ImageData) -> Section | None:
    across = data.duplicates.across
    if not across:
        return None
    counts = ", ".join(f"{shared.count:,} of {shared.second} are in {shared.first}" for shared in across)
    return Section(
        anchor="in-two-splits",
        title="Images in two splits",
        text=(f"Equal pixels: {counts}. A few of them side by side.",),
        strips=tuple(
            strip for shared in across for strip in _pairs(data, shared.pairs, first=shared.first, second=shared.second)
        ),
    )


def _contradictions(data: ImageData) -> Section | None:
    found = data.duplicates.contradictions
    if not found.count:
        return None
    return Section(
        anchor="several-classes",
        title="Training images in several classes",
        text=(f"{found.count:,} training images have equal pixels and different classes. A few of them side by side.",),
        strips=tuple(_pairs(data, found.pairs, first="train", second="train")),
    )


def _pairs(data: ImageData, pairs: Sequence[Pair], *, first: str, second: str) -> list[Strip]:
    return [
        Strip(
            label=f"{data.place(second, other)} = {data.place(first, one)}",
            pictures=(
                _picture(data, second, other, caption=f"{second}: {_class(data, second, other)}"),
                _picture(data, first, one, caption=f"{first}: {_class(data, first, one)}"),
            ),
        )
        for one, other in pairs
    ]


def _picture(data: ImageData, split: str, position: int, caption: str | None = None) -> Picture:
    place = data.place(split, position)
    name = PurePath(place).name if data.names is not None else str(data.split.indices[split][position])
    small = _thumbnail(data.part(split).images[position])
    return picture(small, 0, f"{place}, {_class(data, split, position)}", caption=name if caption is None else caption)


def _class(data: ImageData, split: str, position: int) -> str:
    return data.label_names[int(data.part(split).labels[position])]


def _thumbnail(image: ImageArray) -> ImageArray:
    """Shrink uint8 [C, H, W] to [1, C, h, w] of at most 96 pixels a side."""
    if max(image.shape[1:]) <= _SIDE:
        return image[np.newaxis]
    small = Image.fromarray(image[0] if len(image) == 1 else np.moveaxis(image, 0, -1))
    small.thumbnail((_SIDE, _SIDE))
    pixels = np.asarray(small)
    return pixels[np.newaxis, np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)[np.newaxis]

"""Which images a run uses, and how they are split."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from mntrain.data.sources import find_source
from mntrain.errors import ConfigError

__all__ = ["ColorMode", "DataConfig"]

ColorMode = Literal["auto", "L", "RGB"]

_MAX_SEED = 2**32 - 1
_MAX_SIDE = 4096
# Fields that mean something only where a source has named columns and splits.
_COLUMNAR = ("image_column", "label_column", "subset", "test_split")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the images come from and how they are split.

    Raises:
        ConfigError: a field has a value that cannot work.
    """

    source: str = "digits"
    """Registered source: ``digits`` (needs no files), ``fashion-mnist``, ``idx`` or ``datasets``."""
    path: str | None = None
    """Folder of idx files; for ``datasets`` a local folder or file, or a name on the Hugging Face hub."""
    train_limit: int | None = None
    """Keep this many training images, drawn per class after validation is taken; None keeps all."""
    validation_fraction: float = 0.1
    """Share of the training images held out for validation, if the source has no such split."""
    test_fraction: float = 0.2
    """Share of all images held out for testing, if the source has no such split."""
    split_seed: int = 0
    """Seed of every split and of ``train_limit``. Independent of the training seed."""
    image_size: int | None = None
    """Resize every image to this many pixels square while loading; None keeps the size."""
    color: ColorMode = "auto"
    """``L`` (grey, 1 channel), ``RGB`` (3 channels) or ``auto``: RGB if any image has colour."""
    image_column: str | None = None
    """Image column (``datasets`` only); None finds it in the schema."""
    label_column: str | None = None
    """Label column (``datasets`` only); None finds it in the schema."""
    subset: str | None = None
    """Named part of a data set on the hub (``datasets`` only), where it has several, such as ``cropped_digits``."""
    test_split: str | None = None
    """Split of the source to test on (``datasets`` only), where the labelled one is not called test."""

    def __post_init__(self) -> None:
        source = find_source(self.source)
        for name in ("path", *_COLUMNAR):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise _invalid(name, value, "a non-empty text, or null to leave it out")
        for name in ("validation_fraction", "test_fraction"):
            value = getattr(self, name)
            if not _is_number(value) or not 0.0 < value < 1.0:
                raise _invalid(name, value, "a number above 0 and below 1, such as 0.1")
        for name in ("train_limit", "image_size"):
            value = getattr(self, name)
            if value is not None and (not _is_integer(value) or value < 1):
                raise _invalid(name, value, "a positive integer, or null to switch it off")
        if self.image_size is not None and self.image_size > _MAX_SIDE:
            raise _invalid("image_size", self.image_size, f"at most {_MAX_SIDE} pixels")
        if not _is_integer(self.split_seed) or not 0 <= self.split_seed <= _MAX_SEED:
            raise _invalid("split_seed", self.split_seed, f"an integer from 0 to {_MAX_SEED}")
        if self.color not in get_args(ColorMode):
            raise _invalid("color", self.color, "one of 'auto', 'L' (grey) or 'RGB'")
        if source.path == "required" and self.path is None:
            raise ConfigError(
                f"data.path is not set, but data.source '{self.source}' needs it ({source.summary}); set data.path."
            )
        if source.path == "none" and self.path is not None:
            raise ConfigError(
                f"data.path is {self.path!r}, but data.source '{self.source}' reads no files "
                f"({source.summary}); leave it out, or choose the source 'idx' or 'datasets'."
            )
        for name in _COLUMNAR:
            if getattr(self, name) is not None and not source.columns:
                raise ConfigError(
                    f"data.{name} is {getattr(self, name)!r}, but data.source '{self.source}' has no "
                    "columns and no named parts; leave it out, or choose the source 'datasets'."
                )

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values, in their order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _invalid(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"data.{name} is {value!r}; it must be {expected}.")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

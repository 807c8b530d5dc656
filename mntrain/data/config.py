"""Configuration of the data of a run: source, splits, and options of each source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from mntrain.data.column_names import as_names
from mntrain.data.imbalance.config import ImbalanceConfig
from mntrain.data.registry import SOURCES, find_source
from mntrain.errors import ConfigError

ColorMode = Literal["auto", "L", "RGB"]
ImageFit = Literal["stretch", "crop", "pad"]
TargetKind = Literal["auto", "value", "class"]
MissingRule = Literal["median", "mean", "refuse"]
Leaks = Literal["warn", "refuse", "allow"]
ValidationOrigin = Literal["train", "test"]
MissingImages = Literal["refuse", "leave_out"]

_MAX_SEED = 2**32 - 1
_MAX_SIDE = 4096
_MAX_ROWS = 10_000_000
_TEXTS = ("path", "image_column", "label_column", "split_column", "subset", "test_split", "lists", "class_names")
_COLUMNS = ("target_column", "exclude_columns", "category_columns")
_PATTERNS = "the name of a class, a pattern such as 'Greek/*' or '!Greek/*', or a list of these; null keeps all classes"


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Source of the images or rows, and their splits.

    Raises:
        ConfigError: a field has a value that cannot work.
    """

    source: str = "digits"
    """Registered source: ``digits`` (needs no files), ``images`` (your own), ``table`` (a file of rows), ``datasets``
    (the Hugging Face hub), ``image-lists``, ``features`` (of a frozen network), ``fashion-mnist``, ``idx`` or
    ``spiral`` (made up)."""
    path: str | None = None
    """Folder of idx files; for ``images`` a folder of class folders, a table of images or of paths, or a folder of
    tables; for ``datasets`` the same, or a name on the Hugging Face hub; for ``table`` a .csv, .tsv (perhaps .gz)
    or .parquet file, or a folder with one for each split; for ``features`` a feature store."""
    train_limit: int | None = None
    """Keep this many training examples, drawn per class after validation is taken; None keeps all."""
    validation_fraction: float = 0.1
    """Share of the training examples held out for validation, if the source has no such split."""
    validation_from: ValidationOrigin = "train"
    """Examples that validation is drawn from: ``train``, or ``test``, which leaves the training examples whole."""
    test_fraction: float = 0.2
    """Share of all examples held out for testing, if the source has no such split and ``folds`` is not set."""
    split_seed: int = 0
    """Seed of every split and of ``train_limit``. Independent of the training seed."""
    imbalance: ImbalanceConfig = field(default_factory=ImbalanceConfig)
    """Long tail of the training split."""
    leaks: Leaks = "warn"
    """Equal images or rows in two splits: ``warn`` tells of them, ``refuse`` stops, ``allow`` counts in silence."""
    image_size: int | None = None
    """Bring every image to this many pixels square while loading; None keeps the size."""
    image_fit: ImageFit = "stretch"
    """How ``image_size`` is reached: ``stretch`` scales both sides, ``crop`` scales the largest centered square,
    ``pad`` scales the longer side and fills the rest with black."""
    color: ColorMode = "auto"
    """``L`` (grey, 1 channel), ``RGB`` (3 channels) or ``auto``: RGB if any image has colour."""
    image_column: str | None = None
    """Column of images or of paths to them (``images`` and ``datasets``); None finds it."""
    label_column: str | None = None
    """Label column (``images`` and ``datasets``); None finds it."""
    split_column: str | None = None
    """Column that says train, validation or test (``images``, ``datasets`` and ``table``); None takes one called
    ``split``, or of images any one of such words."""
    classes: str | tuple[str, ...] | None = None
    """Classes of images to keep: names or shell patterns such as ``Greek/*``, one or a list. A leading ``!`` leaves
    classes out, and such patterns alone keep all others. Labels are numbered anew. None keeps all."""
    nested: bool = False
    """Take pictures at any depth below their class folder (``images`` and ``datasets``); else they must lie in it."""
    subset: str | None = None
    """Named part of a data set on the hub (``datasets`` only), where it has several, such as ``cropped_digits``."""
    test_split: str | None = None
    """Split to test on (``images`` and ``datasets``), where the labelled one is not called test."""
    lists: str | None = None
    """Folder of the lists of images (``image-lists`` only), or the beginning of their names such as
    ``lists/ImageNet_LT``; None takes those in ``data.path``."""
    class_names: str | None = None
    """File of class names, one a line (``image-lists`` only); None names classes by the folders of their images."""
    missing_images: MissingImages = "refuse"
    """Images that a list names and that are not there (``image-lists`` only): ``refuse`` or ``leave_out``."""
    target_column: str | tuple[str, ...] | None = None
    """Column to estimate or tell apart, or a list of columns of values to estimate together (``table`` only); None
    takes the column called ``y``, ``target``, ``label`` or ``class``, where there is exactly one."""
    target: TargetKind = "auto"
    """``value`` (regression), ``class``, or ``auto``: class where the column holds text or true/false, else value
    (``table`` only)."""
    exclude_columns: str | tuple[str, ...] = ()
    """Columns that are no features (``table`` only), one name or a list."""
    category_columns: str | tuple[str, ...] = ()
    """Columns whose values are names of categories (``table`` only), one name or a list: whole numbers that are no
    amounts, or texts of many values. Texts of few values are categories by themselves."""
    missing: MissingRule = "median"
    """Value that stands for a missing number among the features (``table`` only): ``median`` or ``mean`` of the
    training rows; ``refuse`` accepts no missing value."""
    folds: int | None = None
    """Split the rows into this many folds and test on one of them (``table`` only); None splits once."""
    fold: int = 0
    """The fold to test on, from 0 (``table`` only)."""
    rows: int = 1000
    """Points of both arms together (``spiral`` only)."""
    noise: float = 0.03
    """Standard deviation of the points around their arm (``spiral`` only)."""
    turns: float = 1.5
    """Turns of each arm (``spiral`` only)."""

    def __post_init__(self) -> None:
        if isinstance(self.imbalance, Mapping):  # plain values, of a file or of a command line
            object.__setattr__(self, "imbalance", ImbalanceConfig(**self.imbalance))
        source = find_source(self.source)
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise _invalid(name, value, "a non-empty text, or null to leave it out")
        for name in _COLUMNS:
            self._check_columns(name)
        self._check_classes()
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
        if self.image_fit not in get_args(ImageFit):
            raise _invalid("image_fit", self.image_fit, "one of 'stretch', 'crop' or 'pad'")
        if self.image_fit != "stretch" and self.image_size is None:
            raise ConfigError(
                f"data.image_fit is {self.image_fit!r}, but data.image_size is not set, so no image changes its size; "
                "set data.image_size, or leave data.image_fit out."
            )
        if not _is_integer(self.split_seed) or not 0 <= self.split_seed <= _MAX_SEED:
            raise _invalid("split_seed", self.split_seed, f"an integer from 0 to {_MAX_SEED}")
        if not isinstance(self.nested, bool):
            raise _invalid("nested", self.nested, "true or false")
        if self.color not in get_args(ColorMode):
            raise _invalid("color", self.color, "one of 'auto', 'L' (grey) or 'RGB'")
        if self.leaks not in get_args(Leaks):
            raise _invalid("leaks", self.leaks, "one of 'warn', 'refuse' or 'allow'")
        if self.validation_from not in get_args(ValidationOrigin):
            raise _invalid("validation_from", self.validation_from, "'train' or 'test'")
        if self.missing_images not in get_args(MissingImages):
            raise _invalid("missing_images", self.missing_images, "'refuse' or 'leave_out'")
        if self.imbalance.active and self.train_limit is not None:
            raise ConfigError(
                f"data.train_limit is {self.train_limit} and data.imbalance.kind {self.imbalance.kind!r}, which both "
                "say how many training examples stay; leave one out (data.imbalance.largest limits all classes)."
            )
        self._check_rows()
        if source.path == "required" and self.path is None:
            raise ConfigError(
                f"data.path is not set, but data.source '{self.source}' needs it ({source.summary}); set data.path."
            )
        if source.path == "none" and self.path is not None:
            raise ConfigError(
                f"data.path is {self.path!r}, but data.source '{self.source}' reads no files "
                f"({source.summary}); leave it out, or choose the source 'images', 'datasets', 'idx' or 'table'."
            )
        self._check_options()

    def _check_columns(self, name: str) -> None:
        """Keep names of columns as a tuple; a single target as a text."""
        value = getattr(self, name)
        if value is None:
            return
        names = as_names(value)
        if names is None or any(not item.strip() for item in names) or (name == "target_column" and not names):
            raise _invalid(name, value, "the name of a column or a list of names, such as '[latitude, longitude]'")
        single = name == "target_column" and len(names) == 1
        object.__setattr__(self, name, names[0] if single else tuple(dict.fromkeys(names)))

    def _check_classes(self) -> None:
        """Keep patterns of classes as a tuple."""
        if self.classes is None:
            return
        patterns = as_names(self.classes)
        if not patterns or any(not pattern.strip() for pattern in patterns):
            raise _invalid("classes", self.classes, _PATTERNS)
        object.__setattr__(self, "classes", tuple(dict.fromkeys(patterns)))

    @property
    def class_patterns(self) -> tuple[str, ...] | None:
        """Patterns of ``classes``; None keeps all."""
        return None if self.classes is None else as_names(self.classes)

    def _check_rows(self) -> None:
        if self.target not in get_args(TargetKind):
            raise _invalid("target", self.target, "one of 'auto', 'value' (regression) or 'class'")
        if self.missing not in get_args(MissingRule):
            raise _invalid("missing", self.missing, "one of 'median', 'mean' or 'refuse'")
        if self.folds is not None and (not _is_integer(self.folds) or not 2 <= self.folds <= 1000):
            raise _invalid("folds", self.folds, "an integer from 2 to 1000, or null to split once")
        if not _is_integer(self.fold) or not 0 <= self.fold < (self.folds or 1):
            limit = "0 where data.folds is not set" if self.folds is None else f"from 0 to {self.folds - 1}"
            raise _invalid("fold", self.fold, limit)
        if not _is_integer(self.rows) or not 20 <= self.rows <= _MAX_ROWS:
            raise _invalid("rows", self.rows, f"an integer from 20 to {_MAX_ROWS}")
        if not _is_number(self.noise) or not 0 <= self.noise <= 1:
            raise _invalid("noise", self.noise, "from 0 to 1 (0.03 is usual; the arms reach to about 2)")
        if not _is_number(self.turns) or not 0 < self.turns <= 20:
            raise _invalid("turns", self.turns, "above 0 and at most 20")

    def _check_options(self) -> None:
        """Refuse fields that the source does not use, since they would be ignored in silence."""
        taken = find_source(self.source).options
        for each in fields(self):
            takers = [name for name, source in SOURCES.items() if each.name in source.options]
            if takers and each.name not in taken and getattr(self, each.name) != each.default:
                raise ConfigError(
                    f"data.{each.name} is {getattr(self, each.name)!r}, but data.source '{self.source}' has no use "
                    f"for it; leave it out, or choose the source {' or '.join(repr(name) for name in takers)}."
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, in their order."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return plain | {"imbalance": self.imbalance.to_dict()}


def _invalid(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"data.{name} is {value!r}; it must be {expected}.")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

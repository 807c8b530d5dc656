"""Find the columns of images and labels in a table, and read the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mntrain.data.examples import IndexArray
from mntrain.data.hugging_face import datasets
from mntrain.data.labels import check_contiguous, check_in_range, listing
from mntrain.errors import ConfigError, DataError

_USUAL_LABEL_NAMES = ("label", "labels", "class", "target", "y")


def find_image_column(features: Mapping[str, Any], requested: str | None, *, where: str) -> str:
    """Return the column called ``requested``, or the only one that holds images.

    Raises:
        ConfigError: no column is called ``requested``, or several hold images.
        DataError: the column, or every column, holds something else than images.
    """
    if requested is not None:
        feature = _named(features, requested, "image_column", where)
        if not _is_image(feature) and feature != datasets.Value("binary"):
            raise DataError(
                f"{where}: column '{requested}' holds {_type_name(feature)}, not encoded images; pixel arrays "
                "(and NaN or float pixels) are not accepted, so store PNG or JPEG images, or set "
                "data.image_column."
            )
        return requested
    candidates = [name for name, feature in features.items() if _is_image(feature)]
    if not candidates:
        raise DataError(f"{where} has no column of images; its columns are {_columns(features)}.")
    return _only(candidates, "image_column", "images", where)


def find_label_column(features: Mapping[str, Any], requested: str | None, *, image: str, where: str) -> str:
    """Return the column called ``requested``; else the class labels; else text or whole numbers.

    Of several, the one with a usual name (``label``, ``class``, ``target`` …) is taken.

    Raises:
        ConfigError: no column is called ``requested``, or several could be the labels.
        DataError: the column, or every column, holds something that cannot be a class.
    """
    if requested is not None:
        feature = _named(features, requested, "label_column", where)
        _check_label_type(feature, requested, where)
        return requested
    others = {name: feature for name, feature in features.items() if name != image}
    classes = [name for name, feature in others.items() if isinstance(feature, datasets.ClassLabel)]
    usual = [name for name in _USUAL_LABEL_NAMES if name in (classes or others)]
    if usual:
        _check_label_type(others[usual[0]], usual[0], where)
        return usual[0]
    candidates = classes or [name for name, feature in others.items() if _is_text(feature) or _is_integer(feature)]
    if not candidates:
        raise DataError(
            f"{where} has no column of labels; its columns are {_columns(features)}. "
            "A folder of images needs one sub-folder for each class."
        )
    return _only(candidates, "label_column", "labels", where)


def read_labels(
    columns: Mapping[str, pa.ChunkedArray], feature: Any, *, where: str
) -> tuple[dict[str, IndexArray], tuple[str, ...]]:
    """Read the labels of every split as int64 [N], and the class names.

    Names come from the schema; text labels are their own names, sorted; unnamed integers must be 0..C-1.

    Raises:
        DataError: labels are missing, negative or out of range.
    """
    for split, column in columns.items():
        if column.null_count:
            first = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise DataError(
                f"{where}, {split} split: image {first} has no label (None), and {column.null_count} in all; "
                "label or remove those images."
            )
    if isinstance(feature, datasets.ClassLabel):
        labels = {split: column.to_numpy().astype(np.int64) for split, column in columns.items()}
        names = tuple(feature.names)
        for split, values in labels.items():
            check_in_range(values, len(names), where=f"{where}, {split} split")
        return labels, names
    if _is_text(feature):
        values = {split: column.to_pylist() for split, column in columns.items()}
        names = tuple(sorted(set().union(*values.values())))
        position = {name: number for number, name in enumerate(names)}
        texts = {split: np.array([position[t] for t in part], dtype=np.int64) for split, part in values.items()}
        return texts, names
    # Unsafe only for uint64 beyond int64, which wraps to a negative label and is reported as one.
    labels = {split: pc.cast(column, pa.int64(), safe=False).to_numpy() for split, column in columns.items()}
    return labels, tuple(str(label) for label in range(check_contiguous(labels, where=where)))


def _is_image(feature: Any) -> bool:
    if isinstance(feature, datasets.Image):
        return True
    # Tables written without the schema of `datasets` store an image as its bytes and its path.
    return isinstance(feature, dict) and set(feature) == {"bytes", "path"}


def _is_text(feature: Any) -> bool:
    return isinstance(feature, datasets.Value) and feature.dtype in ("string", "large_string")


def _is_integer(feature: Any) -> bool:
    return isinstance(feature, datasets.Value) and (feature.dtype == "bool" or "int" in feature.dtype)


def _check_label_type(feature: Any, name: str, where: str) -> None:
    if not (isinstance(feature, datasets.ClassLabel) or _is_text(feature) or _is_integer(feature)):
        raise DataError(
            f"{where}: label column '{name}' holds {_type_name(feature)}; labels must be class labels, text "
            "or whole numbers, so convert them or set data.label_column."
        )


def _named(features: Mapping[str, Any], requested: str, field: str, where: str) -> Any:
    if requested not in features:
        raise ConfigError(f"data.{field} is '{requested}', but {where} has the columns {_columns(features)}.")
    return features[requested]


def _only(candidates: list[str], field: str, what: str, where: str) -> str:
    if len(candidates) > 1:
        raise ConfigError(
            f"{where} has several columns that could hold the {what} ({listing(candidates)}); set data.{field} to one."
        )
    return candidates[0]


def _columns(features: Mapping[str, Any]) -> str:
    return listing([f"'{name}' ({_type_name(feature)})" for name, feature in features.items()]) or "(none)"


def _type_name(feature: Any) -> str:
    if isinstance(feature, datasets.Value):
        return str(feature.dtype)
    inner = getattr(feature, "feature", None)
    return f"lists of {_type_name(inner)}" if inner is not None else type(feature).__name__

"""Find the columns of images, labels and splits in a table."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from PIL import Image

from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.formats import is_picture
from mntrain.data.image_files.rows import ImageRows
from mntrain.data.labels import listing
from mntrain.data.reading.index_columns import has_index_name
from mntrain.errors import ConfigError, DataError

_USUAL_LABEL_NAMES = ("label", "labels", "class", "target", "y", "class_name", "label_name", "category")
_USUAL_PATH_NAMES = (
    "file_name", "filename", "file", "path", "filepath", "file_path", "image", "image_path", "img", "img_path",
)  # fmt: skip


def find_image_column(rows: ImageRows, requested: str | None, *, where: str) -> str:
    """Return the column called ``requested``, or the only one that holds images.

    Images are those that the schema says are; else bytes that decode; else paths: text in a column of a usual name
    (``file_name``, ``path``, ``image`` …), or the only one whose first value ends like the name of a picture.

    Raises:
        ConfigError: no column is called ``requested``, or several hold images.
        DataError: the column, or every column, holds something else than images.
    """
    features = rows.features
    if requested is not None:
        feature = _named(features, requested, "image_column", where)
        if not (is_image(feature) or _is_bytes(feature) or is_text(feature)):
            raise DataError(
                f"{where}: column '{requested}' holds {type_name(feature)}, not encoded images or paths of images; "
                "pixel arrays (and NaN or float pixels) are not accepted, so store PNG or JPEG images, or set "
                "data.image_column."
            )
        return requested
    candidates = [name for name, feature in features.items() if is_image(feature)]
    candidates = candidates or [
        name for name, feature in features.items() if _is_bytes(feature) and _decodes(_first(rows, name))
    ]
    if not candidates:
        texts = [name for name, feature in features.items() if is_text(feature)]
        usual = [name for usual in _USUAL_PATH_NAMES for name in texts if name.lower() == usual]
        candidates = usual[:1] or [name for name in texts if is_picture(str(_first(rows, name)))]
    if not candidates:
        raise DataError(f"{where} has no column of images; its columns are {_columns(features)}.")
    return _only(candidates, "image_column", "images", where)


def find_label_column(
    features: Mapping[str, Any], requested: str | None, *, taken: Sequence[str | None], where: str
) -> str:
    """Return the column called ``requested``; else the class labels; else text or whole numbers.

    Of several, the one with a usual name (``label``, ``class``, ``target`` …) is chosen. Columns without a name, as
    pandas writes its index, are none.

    Args:
        features: columns by name.
        requested: ``data.label_column``.
        taken: columns that hold the images or the splits.
        where: for messages.

    Raises:
        ConfigError: no column is called ``requested``, or several could be the labels.
        DataError: the column, or every column, holds something that cannot be a class.
    """
    if requested is not None:
        feature = _named(features, requested, "label_column", where)
        _check_label_type(feature, requested, where)
        return requested
    others = {name: feature for name, feature in features.items() if name not in taken and not has_index_name(name)}
    classes = [name for name, feature in others.items() if isinstance(feature, datasets.ClassLabel)]
    usual = [name for usual in _USUAL_LABEL_NAMES for name in (classes or others) if name.lower() == usual]
    if usual:
        _check_label_type(others[usual[0]], usual[0], where)
        return usual[0]
    candidates = classes or [name for name, feature in others.items() if is_text(feature) or is_integer(feature)]
    if not candidates:
        raise DataError(f"{where} has no column of labels; its columns are {_columns(features)}.")
    return _only(candidates, "label_column", "labels", where)


def find_split_column(features: Mapping[str, Any], requested: str | None, *, where: str) -> str | None:
    """Return the column called ``requested``, or one called ``split``; None where there is none.

    Raises:
        ConfigError: no column is called ``requested``.
        DataError: it holds something else than text.
    """
    name = requested
    if requested is not None:
        _named(features, requested, "split_column", where)
    else:
        name = next((name for name in features if name.lower() == "split"), None)
    if name is None:
        return None
    feature = features[name]
    if not (is_text(feature) or isinstance(feature, datasets.ClassLabel)):
        if requested is None:
            return None
        raise DataError(
            f"{where}: column '{name}' holds {type_name(feature)}, not the names of splits; set data.split_column."
        )
    return name


def holds_paths(rows: ImageRows, requested: str | None) -> bool:
    """Tell if the images of a table are paths of files; False also where no column of images is found."""
    try:
        return is_text(rows.features[find_image_column(rows, requested, where="")])
    except (ConfigError, DataError):
        return False


def _first(rows: ImageRows, name: str) -> Any:
    """Return the first bytes or path that is not missing."""
    for block in rows.images(name):
        for image in block:
            if image is not None:
                return image["bytes"] if image["bytes"] is not None else image["path"]
    return None


def _decodes(value: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Image.open(io.BytesIO(value)).close()
    except Exception:  # noqa: BLE001 - any failure of any decoder says that it is no picture
        return False
    return True


def is_usual_label(name: str) -> bool:
    """Tell if a column is called as columns of labels usually are."""
    return name.lower() in _USUAL_LABEL_NAMES


def is_image(feature: Any) -> bool:
    """Tell if a column holds encoded images, by its schema."""
    if isinstance(feature, datasets.Image):
        return True
    # Tables written without the schema of `datasets` store an image as its bytes and its path.
    return isinstance(feature, dict) and set(feature) == {"bytes", "path"}


def is_text(feature: Any) -> bool:
    """Tell if a column holds text."""
    return isinstance(feature, datasets.Value) and feature.dtype in ("string", "large_string", "string_view")


def is_integer(feature: Any) -> bool:
    """Tell if a column holds whole numbers, or true and false."""
    return isinstance(feature, datasets.Value) and (feature.dtype == "bool" or "int" in feature.dtype)


def _is_bytes(feature: Any) -> bool:
    return isinstance(feature, datasets.Value) and feature.dtype in ("binary", "large_binary", "binary_view")


def _check_label_type(feature: Any, name: str, where: str) -> None:
    if not (isinstance(feature, datasets.ClassLabel) or is_text(feature) or is_integer(feature)):
        raise DataError(
            f"{where}: label column '{name}' holds {type_name(feature)}; labels must be class labels, text "
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
    return listing([f"'{name}' ({type_name(feature)})" for name, feature in features.items()]) or "(none)"


def type_name(feature: Any) -> str:
    """Name the kind of a column's values."""
    if isinstance(feature, datasets.Value):
        return str(feature.dtype)
    if isinstance(feature, pa.DataType):
        return str(feature)
    inner = getattr(feature, "feature", None)
    return f"lists of {type_name(inner)}" if inner is not None else type(feature).__name__

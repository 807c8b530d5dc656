"""Copy of a set of images with a column of superclasses beside the column of its classes."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mntrain.data.image_files.columns import find_image_column, find_label_column
from mntrain.data.image_files.table_files import open_table
from mntrain.errors import ConfigError, DataError

COARSE, FINE = "coarse", "fine"


def read_superclasses(file: Path) -> dict[str, str]:
    """Read a mapping of superclasses to lists of classes; returns class → superclass.

    Raises:
        ConfigError: the file cannot be read, or a class stands in two superclasses.
    """
    try:
        groups: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
        pairs = [(str(name), group) for group, names in groups.items() for name in names]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"--superclasses {file} cannot be read ({error}); it must hold an object of superclasses and their "
            'classes, such as {"even": ["0", "2"], "odd": ["1", "3"]}.'
        ) from error
    if len(dict(pairs)) != len(pairs):
        twice = next(name for index, (name, _) in enumerate(pairs) if name in dict(pairs[:index]))
        raise ConfigError(f"--superclasses {file} has class {twice!r} twice; leave it in one superclass.")
    return dict(pairs)


def write_coarse_copy(source: Path, superclasses: dict[str, str], target: Path) -> None:
    """Copy each parquet file of a folder, images unchanged, with the text columns ``coarse`` and ``fine``.

    Raises:
        DataError: there are no such files, or a class has no superclass.
    """
    files = sorted(source.glob("*.parquet"))
    if not files:
        raise DataError(f"'{source}' holds no .parquet files; give the folder of train.parquet and its test split.")
    target.mkdir(parents=True, exist_ok=True)
    for file in files:
        rows = open_table(file)
        image = find_image_column(rows, None, where=rows.name)
        label = find_label_column(rows.features, None, taken=(image,), where=rows.name)
        names = getattr(rows.features[label], "names", None)
        fine = [_class(value, names) for value in rows.column(label).to_pylist()]
        lacking = sorted(set(fine) - set(superclasses))
        if lacking:
            raise DataError(
                f"{rows.name} has class {lacking[0]!r}, which --superclasses lacks; add it to a superclass."
            )
        coarse = [superclasses[name] for name in fine]
        images = pq.read_table(file, columns=[image])
        pq.write_table(
            images.append_column(COARSE, pa.array(coarse)).append_column(FINE, pa.array(fine)), target / file.name
        )


def _class(value: Any, names: list[str] | None) -> str:
    return str(value) if names is None else names[value]

"""Splits from a column that names the split of each image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.columns import is_text, is_usual_label
from mntrain.data.image_files.opened import Place
from mntrain.data.image_files.rows import ImageRows, SomeRows
from mntrain.data.labels import listing
from mntrain.data.reading.split_names import split_of, words
from mntrain.errors import ConfigError, DataError

# A column of more distinct values says something else.
_MOST_VALUES = 12

Splits = Mapping[str, Sequence[ImageRows]]


def column_of_splits(rows: Sequence[ImageRows], *, taken: Sequence[str | None], where: str) -> str | None:
    """Return the column of text whose values say train and another split, whatever it is called; None where none does.

    Values with further words, such as PublicTest, count too: :func:`split_rows` refuses them by name.

    Args:
        rows: of all parts.
        taken: columns that are something else.
        where: for messages.

    Raises:
        ConfigError: there are several.
    """
    found = []
    for name, feature in rows[0].features.items():
        if name in taken or is_usual_label(name):
            continue
        if isinstance(feature, datasets.ClassLabel):
            values = set(feature.names)
        elif is_text(feature):
            columns = [part.column(name) for part in rows if name in part.features]
            values = {value for column in columns for value in column.unique().to_pylist()[: _MOST_VALUES + 1]}
        else:
            continue
        telling = all(value is None or words(value) for value in values)
        if (
            1 < len(values) <= _MOST_VALUES
            and telling
            and any(value and split_of(value) == "train" for value in values)
        ):
            found.append(name)
    if len(found) > 1:
        raise ConfigError(
            f"{where} has several columns that could hold the splits ({listing(found)}); set data.split_column to one."
        )
    return found[0] if found else None


def split_rows(place: Place, splits: Splits, column: str, told: str) -> tuple[Splits, str]:
    """Divide the rows by ``column``; returns the splits, and a sentence on how they came about (else ``told``).

    A column that was not asked for counts only where its values are names of splits.

    Raises:
        DataError: a value is missing or names no split, there is no train split, or the column contradicts the splits
            that are there already.
        ConfigError: the column was asked for, but there are splits already.
    """
    asked = place.config.split_column is not None
    values = {name: [_values(part, column) for part in parts] for name, parts in splits.items()}
    meaning = {value: _meaning(value) for parts in values.values() for part in parts for value in part}
    others = [value for value, split in meaning.items() if split is None]
    if not asked and len(others) == len(meaning):
        return splits, told
    if others:
        raise DataError(
            f"{place.where}: the column '{column}' holds {listing([_shown(value) for value in others])}, beside names "
            "of splits; it may hold train, validation (val, valid, dev) and test (testing, eval), in any case."
        )
    if set(splits) != {"all"}:
        _check_agree(place, values, meaning, column, asked)
        return splits, told
    found = set(meaning.values())
    if found == {"train"}:
        return splits, told
    if place.trained and "train" not in found:
        raise DataError(
            f"{place.where}: the column '{column}' holds {listing([_shown(value) for value in meaning])}, but no row "
            "is of the train split; name the rows to train on train."
        )
    divided: dict[str, list[ImageRows]] = {}
    for split in ("train", "validation", "test"):
        if split in found:
            divided[split] = []
            for part, texts in zip(splits["all"], values["all"], strict=True):
                chosen = np.flatnonzero([meaning[text] == split for text in texts])
                divided[split].append(SomeRows(whole=part, positions=chosen.astype(np.int64)))
    return divided, f"by the column '{column}'"


def _values(part: ImageRows, column: str) -> list[str | None]:
    values: list[Any] = part.column(column).to_pylist()
    feature = part.features[column]
    if isinstance(feature, datasets.ClassLabel):
        names = dict(enumerate(feature.names))
        return [names.get(value) for value in values]
    return values


def _meaning(value: str | None) -> str | None:
    return None if value is None else split_of(value)


def _check_agree(
    place: Place,
    values: Mapping[str, Sequence[Sequence[str | None]]],
    meaning: Mapping[str | None, str | None],
    column: str,
    asked: bool,
) -> None:
    if asked:
        raise ConfigError(
            f"data.split_column is {column!r}, but {place.where} has the splits {listing(list(values))} already; leave "
            "it out."
        )
    for split, parts in values.items():
        wrong = {text for part in parts for text in part if meaning[text] != split}
        if wrong:
            raise DataError(
                f"{place.where}: the {split} split holds rows whose column '{column}' says "
                f"{listing(sorted(map(_shown, wrong)))}; correct the column, or remove it."
            )


def _shown(value: str | None) -> str:
    return "no value" if value is None else repr(value)

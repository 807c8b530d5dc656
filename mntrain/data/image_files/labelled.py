"""Turn what was found at a place into labelled images: columns, splits, classes by name, pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mntrain.data.account import ColumnAccount, ColumnRole, SourceAccount
from mntrain.data.image_files.chosen_rows import choose_rows
from mntrain.data.image_files.classes import missing_classes, read_labels
from mntrain.data.image_files.columns import (
    find_image_column,
    find_label_column,
    find_split_column,
    is_text,
    type_name,
)
from mntrain.data.image_files.decoding import DecodeOptions, decode_rows
from mntrain.data.image_files.opened import OpenedImages, Place
from mntrain.data.image_files.paths import check_files, check_folders, ignore_unnamed
from mntrain.data.image_files.rows import ImageRows, count
from mntrain.data.image_files.split_column import column_of_splits, split_rows
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.labels import check_lines, check_names
from mntrain.data.reading.index_columns import has_index_name
from mntrain.data.reading.pixel_account import PixelCensus
from mntrain.data.reading.pixels import match_channels
from mntrain.errors import DataError

Splits = Mapping[str, Sequence[ImageRows]]


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """Names of the columns of images, labels and (None where there are none) splits."""

    image: str
    label: str
    split: str | None


def load_labelled(place: Place, opened: OpenedImages) -> SourceImages:
    """Read labels and decode images of every split.

    Raises:
        DataError: splits do not agree, or images or labels cannot be used.
        ConfigError: a column is named wrongly, or several would do.
    """
    for name, parts in opened.splits.items():
        if count(parts) == 0:
            raise DataError(f"{place.where}: the {name} split holds no images; every split needs at least one.")
    columns = _find_columns(place, opened)
    splits, split_words = opened.splits, opened.split_words
    of_paths = is_text(_first(splits).features[columns.image])
    if place.trained and of_paths and columns.split is None:
        check_folders(place, splits, columns.image, columns.label)
    if columns.split is not None:
        splits, split_words = split_rows(place, splits, columns.split, split_words)
        if splits is opened.splits:
            columns = replace(columns, split=None)
    read = read_labels(place, splits, columns.label)
    names = read.names
    if place.trained:
        _check_classes(place, opened, names)
    chosen = choose_rows(place, splits, read)
    if place.trained and (missing := missing_classes(chosen.labels, names)):
        split_words = f"{split_words}; {missing}"
    if of_paths:
        ignore_unnamed(place, check_files(place, splits, columns.image, columns.label), opened.pictures)
    config = place.config
    options = DecodeOptions(color=config.color, size=config.image_size, fit=config.image_fit)
    census = PixelCensus()
    images = match_channels(
        {
            name: decode_rows(parts, columns.image, options, census=census, where=f"{place.where}, {name} split")
            for name, parts in chosen.splits.items()
        }
    )
    return SourceImages(
        splits={name: ImageSet(images=images[name], labels=chosen.labels[name]) for name in chosen.splits},
        label_names=names,
        positions=chosen.positions,
        names=_file_names(splits, columns.image, opened),
        account=SourceAccount(
            location=str(config.path),
            layout=opened.layout,
            splits=split_words,
            ignored=(*place.ignored.account(), *chosen.ignored),
            columns=() if opened.from_folders else _column_accounts(splits, columns, names),
            **census.account(next(iter(images.values())), config),
        ),
    )


def _file_names(splits: Splits, image: str, opened: OpenedImages) -> dict[str, tuple[str, ...]] | None:
    """Paths of the images of each split; None where a table holds the images themselves."""
    if not opened.from_folders and not is_text(_first(splits).features[image]):
        return None
    return {
        split: tuple(str(path) for part in parts for path in part.column(image).to_pylist())
        for split, parts in splits.items()
    }


def _check_classes(place: Place, opened: OpenedImages, names: Sequence[str]) -> None:
    if len(names) < 2:
        remedy = "give each class a folder of its own" if opened.from_folders else "add images of another class"
        raise DataError(
            f"{place.where} ({opened.layout}) holds {len(names)} class(es) {list(names)}; classification needs at "
            f"least 2, so {remedy}."
        )
    check_names(names)
    check_lines(names)


def _find_columns(place: Place, opened: OpenedImages) -> _Columns:
    config, first = place.config, _first(opened.splits)
    image = find_image_column(first, config.image_column, where=place.where)
    split = find_split_column(first.features, config.split_column, where=place.where)
    if split is None and set(opened.splits) == {"all"} and not opened.from_folders:
        taken = (image, config.label_column)
        split = column_of_splits(opened.splits["all"], taken=taken, where=place.where)
    label = find_label_column(first.features, config.label_column, taken=(image, split), where=place.where)
    found = _Columns(image=image, label=label, split=split)
    several = sum(len(parts) for parts in opened.splits.values()) > 1
    for name, parts in opened.splits.items():
        for part in parts if several else ():
            _check_columns(place, found, first, part, name)
    return found


def _check_columns(place: Place, columns: _Columns, first: ImageRows, part: ImageRows, split: str) -> None:
    """Refuse a part whose columns are called otherwise, or hold something else, than those of the first."""
    of = f"{place.where}, {part.name}" if split == "all" else f"{place.where}, {split} split"
    if columns.image not in part.features:
        other = find_image_column(part, None, where=of)
        raise DataError(
            f"{of}: the images are in the column '{other}', those of {first.name} in '{columns.image}'; give the "
            "column the same name."
        )
    if columns.label not in part.features:
        other = find_label_column(part.features, None, taken=(columns.image, columns.split), where=of)
        raise DataError(
            f"{of}: the labels are in the column '{other}', those of {first.name} in '{columns.label}'; give the "
            "column the same name."
        )
    if columns.split is not None and columns.split not in part.features:
        raise DataError(f"{of} has no column '{columns.split}' of splits, but {first.name} has; add or remove it.")
    find_image_column(part, columns.image, where=of)
    find_label_column(part.features, columns.label, taken=(), where=of)
    texts = is_text(first.features[columns.image]), is_text(part.features[columns.image])
    if texts[0] != texts[1]:
        raise DataError(
            f"{of}: the column '{columns.image}' holds {type_name(part.features[columns.image])}, in {first.name} "
            f"{type_name(first.features[columns.image])}; store images or paths in all of them."
        )


def _first(splits: Splits) -> ImageRows:
    return splits["train"][0] if "train" in splits else next(iter(splits.values()))[0]


def _column_accounts(splits: Splits, columns: _Columns, names: Sequence[str]) -> tuple[ColumnAccount, ...]:
    first = _first(splits)
    kinds: dict[str, tuple[ColumnRole, str]] = {
        columns.image: ("image", "path" if is_text(first.features[columns.image]) else "image"),
        columns.label: ("label", "class"),
    }
    if columns.split is not None:
        kinds[columns.split] = ("split", "split")
    accounts = []
    for name, feature in first.features.items():
        role, kind = kinds.get(name, ("excluded", type_name(feature)))
        accounts.append(
            ColumnAccount(
                name=name,
                role=role,
                kind=kind,
                categories=tuple(names) if role == "label" else (),
                note="index" if has_index_name(name) else "not used" if role == "excluded" else "",
            )
        )
    return tuple(accounts)

"""Labelled data that a model has never seen, in the layout of its artifact.

Shapes: N examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.artifact import Artifact, ImageArtifact, TableArtifact
from mntrain.data.duplicates import example_keys
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.labels import listing
from mntrain.data.loading import load_unseen_images
from mntrain.data.tables import SourceTable, TableSet
from mntrain.errors import ConfigError, DataError
from mntrain.evaluation.classes import match_classes, refuse_none_known, refuse_unknown
from mntrain.evaluation.labelled import LabelledData, SharedWithRun
from mntrain.evaluation.new_rows import load_new_rows
from mntrain.evaluation.options import EvaluateOptions
from mntrain.evaluation.reading import reading_config


def load_new_data(artifact: Artifact, options: EvaluateOptions) -> LabelledData:
    """Load everything at ``options.new_data``, or one split of it, by the rules of the artifact.

    Raises:
        ConfigError: there is no such split, or a field has no use.
        DataError: the data cannot be read, has another layout, or classes that the model does not know.
    """
    config = reading_config(artifact.config, options.new_data)
    where = f"'{config.path}'"
    source: SourceImages | SourceTable
    if isinstance(artifact, ImageArtifact):
        images = load_unseen_images(config)
        check_shape(images, artifact, where)
        source = images
    else:
        assert isinstance(artifact, TableArtifact)
        source = load_new_rows(artifact.config, config)
    chosen = _chosen(tuple(source.splits), options.split, where)
    inputs = np.concatenate([source.splits[split].inputs for split in chosen])
    targets = np.concatenate([source.splits[split].targets for split in chosen])
    places = _places(source, chosen)
    left_out: dict[str, int] = {}
    if source.label_names is not None:
        known = artifact.config.labels or ()
        matched = match_classes(targets, source.label_names, known)
        left_out = matched.left_out
        if options.unknown_classes == "refuse":
            refuse_unknown(left_out, known, where=where, noun=f"{source.noun}s")
        if not len(matched.kept):
            refuse_none_known(left_out, known, where=where)
        inputs, targets = inputs[matched.kept], matched.labels
        places = tuple(places[position] for position in matched.kept)
    examples = (
        ImageSet(images=inputs, labels=targets)
        if isinstance(artifact, ImageArtifact)
        else TableSet(inputs=inputs, targets=targets)
    )
    return LabelledData(
        examples=examples,
        split=options.split or "all",
        places=places,
        path=str(config.path),
        left_out=left_out,
        shared=replace(shared_with(artifact.samples, examples), support=artifact.config.adapted is not None),
        notes=_notes(source, chosen),
    )


def _notes(source: SourceImages | SourceTable, chosen: Sequence[str]) -> tuple[str, ...]:
    """Say which splits were joined, what became of pixels, and what was ignored."""
    notes = [source.account.pixels] if source.account.pixels else []
    if tuple(source.splits) != ("all",):
        counted = ", ".join(f"{split} ({len(source.splits[split]):,})" for split in chosen)
        notes.insert(0, f"splits: {counted}")
    notes += [
        f"ignored: {ignored.count:,} {ignored.reason} ({listing([repr(name) for name in ignored.examples])})"
        for ignored in source.account.ignored
    ]
    return (*notes, *_column_notes(source))


def _column_notes(source: SourceImages | SourceTable) -> Iterator[str]:
    """Say what was missing or unknown in the columns of new rows, and which were not taken."""
    if isinstance(source, SourceImages):
        return
    columns = source.account.columns
    for name in source.feature_names:
        missing = sum(column.missing for column in columns if column.name == name)
        told = [f"{missing:,} missing"] if missing else []
        told += [column.note for column in columns if column.name == name and column.note]
        if told:
            yield f"column {name!r}: {'; '.join(told)}"
    others = list(dict.fromkeys(repr(column.name) for column in columns if column.role == "excluded"))
    if others:
        yield f"columns that the model does not take: {listing(others)}"


def shared_with(
    samples: ImageSet | TableSet, examples: ImageSet | TableSet, train: ImageSet | TableSet | None = None
) -> SharedWithRun:
    """Count the ``examples`` that are equal to held-out ``samples`` of the run, and to its training examples.

    Images are equal by their pixels, rows by inputs and targets.
    """
    keys = _keys(examples)
    return SharedWithRun(
        samples=int(np.isin(keys, _keys(samples)).sum()),
        samples_of=len(samples),
        training=None if train is None else int(np.isin(keys, _keys(train)).sum()),
    )


def _keys(examples: ImageSet | TableSet) -> NDArray[Any]:
    if isinstance(examples, ImageSet):
        return example_keys(examples.images)
    return example_keys(examples.inputs, examples.targets)


def _chosen(splits: Sequence[str], split: str | None, where: str) -> tuple[str, ...]:
    """Splits of the new data to evaluate on."""
    if split is None or split == "all":
        return tuple(splits)
    if split not in splits:
        holds = "is not split" if tuple(splits) == ("all",) else f"has the splits {', '.join(splits)}"
        raise ConfigError(f"--split is {split!r}, but {where} {holds}; leave --split out to evaluate on all of it.")
    return (split,)


def check_shape(source: SourceImages, artifact: ImageArtifact, where: str) -> None:
    """Refuse images of another size than a model takes.

    Raises:
        DataError: naming the split and both sizes.
    """
    size = artifact.config.input
    for split, part in source.splits.items():
        height, width = part.images.shape[2:]
        if (height, width) != (size.height, size.width):
            raise DataError(
                f"{where}: images of split {split} have {width}x{height} pixels, but the model takes "
                f"{size.width}x{size.height}, and sides that differ are not resized to; give images of that size."
            )


def _places(source: SourceImages | SourceTable, chosen: Sequence[str]) -> tuple[str, ...]:
    """Name every example of the ``chosen`` splits: its file, or its number in its split from 0."""
    names: Mapping[str, tuple[str, ...]] | None = getattr(source, "names", None)
    found: list[str] = []
    for split in chosen:
        positions: Mapping[str, Sequence[int]] = getattr(source, "positions", {})
        numbers = positions.get(split, range(len(source.splits[split])))
        prefix = source.noun if split == "all" else f"{split} {source.noun}"
        found += [f"{prefix} {number}" if names is None else names[split][number] for number in numbers]
    return tuple(found)

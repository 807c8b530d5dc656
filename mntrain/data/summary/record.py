"""Summary of a set as plain JSON values: printed, written beside a run, and kept in its artifact."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class SplitEntry(TypedDict):
    """One of train, validation and test."""

    count: int
    """Number of examples."""
    source_split: str
    """Split of the source that they come from; ``all`` where it has none."""
    classes: dict[str, int]
    """Class → number of examples, several views of an image being one; empty where targets are values."""


class IgnoredEntry(TypedDict):
    """Everything that was not used for one reason."""

    reason: str
    count: int
    examples: list[str]


class SharedEntry(TypedDict):
    """Examples of the second split that are equal to one of the first."""

    splits: list[str]
    count: int
    examples: list[list[str]]
    """A few, as pairs of names or positions."""


class ContradictionsEntry(TypedDict):
    """Training examples with equal inputs and different classes."""

    count: int
    examples: list[list[str]]


class DuplicatesEntry(TypedDict):
    """Equal examples."""

    within: dict[str, int]
    """Split → examples that are equal to an earlier one of the same split."""
    across: list[SharedEntry]
    contradictions: ContradictionsEntry


class ImagesEntry(TypedDict):
    """Images as they were found."""

    sizes: dict[str, int]
    """WIDTHxHEIGHT → number of images; rare sizes are counted together as ``other``."""
    colors: dict[str, int]
    """Color mode, such as L (grey) or RGB → number of images."""
    pixels: str
    """What became of sizes and colors."""


class ColumnEntry(TypedDict):
    """One column of a table or manifest."""

    name: str
    role: str
    kind: str
    missing: int
    distinct: int
    """Number of categories or classes; 0 for numbers."""
    categories: list[str]
    """The first of them."""
    range: list[float] | None
    """Lowest, middle and highest training value of a number; None for other kinds."""
    note: str


class DataRecord(TypedDict):
    """Summary of a set."""

    source: str
    location: str
    layout: str
    split_rule: str
    noun: str
    """Word for an example: image or row."""
    classes: list[str]
    """Class names in the order of their labels; empty where targets are values."""
    splits: dict[str, SplitEntry]
    ignored: list[IgnoredEntry]
    duplicates: DuplicatesEntry
    images: ImagesEntry | None
    """None for rows."""
    columns: list[ColumnEntry]
    warnings: list[str]
    """Sentences on what is probably not meant."""


class TrainedStartEntry(TypedDict):
    """Artifact whose weights a model starts from."""

    path: str
    family: str
    weights_sha256: str
    """Digest of the file of its weights."""
    taken: int
    """Number of tensors that fit."""
    new: list[str]
    """Tensors of the model that start untrained."""
    unused: list[str]
    """Tensors of the artifact without a place in the model."""
    notes: list[str]
    """What is not the same in the two."""


class TrainingEntry(TypedDict):
    """Steps of the optimizer."""

    batch_size: int
    steps_per_epoch: int
    epochs: int
    rates: NotRequired[dict[str, float]]
    """Group of parameters → factor on the learning rate, where that was found from the length of the run."""
    start: NotRequired[TrainedStartEntry]
    """Only where the model starts from an artifact."""


class RunRecord(DataRecord):
    """Summary of a set, and of what a run makes of it."""

    input: list[int]
    """Shape of one input of the model: channels, height and width; or the columns after encoding."""
    training: TrainingEntry

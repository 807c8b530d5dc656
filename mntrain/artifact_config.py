"""Content of an artifact's ``config.json``: the description of a trained model."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from mntrain.config import ExperimentConfig
from mntrain.data.labels import check_names
from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.data.standardization import StandardizationConfig

SCHEMA = 2
READABLE = (1, 2)
"""Schemas that this version reads: 2 added models of rows, and says the same as 1 about images."""
_MAX_SIDE = 4096
_MAX_COLUMNS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Size of the images that a model takes.

    Args:
        channels: 1 (grey) or 3 (RGB).
        height: pixels.
        width: pixels.
    """

    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        if self.channels not in (1, 3) or not (1 <= self.height <= _MAX_SIDE and 1 <= self.width <= _MAX_SIDE):
            raise ValueError(
                f"input is {self.channels} x {self.height} x {self.width}, expected 1 or 3 channels and sides of 1 to "
                f"{_MAX_SIDE} pixels"
            )

    @property
    def color(self) -> str:
        """Colour mode in Pillow's names: L or RGB."""
        return "L" if self.channels == 1 else "RGB"


@dataclass(frozen=True, kw_only=True)
class ArtifactConfig(ABC):
    """Part of ``config.json`` that every kind of model has.

    Args:
        experiment: configuration of the run.
        split: seed, counts and digest of the data and its split.
        metrics: result of training.
        versions: of the software that wrote the artifact.
        labels: class names, in the order of the logits; None for a regressor.
        data: summary of the data (:class:`~mntrain.data.summary.record.RunRecord`); None in artifacts that have none.
    """

    experiment: ExperimentConfig
    split: dict[str, Any]
    metrics: dict[str, Any]
    versions: dict[str, str]
    labels: tuple[str, ...] | None
    data: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.split.get("sha256"), str):
            raise ValueError("split has no sha256")

    @property
    def family(self) -> str:
        """The model family."""
        return self.experiment.family

    @abstractmethod
    def interface(self) -> dict[str, Any]:
        """Describe inputs and outputs of the model as plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as written to ``config.json``."""
        return {
            "schema": SCHEMA,
            "family": self.family,
            **self.interface(),
            "metrics": self.metrics,
            "split": self.split,
            "experiment": self.experiment.to_dict(),
            "versions": self.versions,
            **({} if self.data is None else {"data": self.data}),
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "ArtifactConfig":
        """Read plain values of either kind: the inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: a field is missing or of another kind.
            ConfigError: the run's configuration is not one this version knows.
        """
        common = {
            "experiment": ExperimentConfig.from_dict(values["experiment"]),
            "split": dict(values["split"]),
            "metrics": dict(values["metrics"]),
            "versions": dict(values["versions"]),
            "data": None if values.get("data") is None else dict(values["data"]),
        }
        read = _read_rows if "columns" in values["input"] else _read_images
        return read(values, common)


@dataclass(frozen=True, kw_only=True)
class ImageArtifactConfig(ArtifactConfig):
    """A classifier of images.

    Args:
        input: size of the images.
        labels: class names, in the order of the logits.
        preprocessing: mean and deviation per channel.
    """

    input: InputSpec
    labels: tuple[str, ...]
    preprocessing: PreprocessingConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names(self.labels)
        if len(self.preprocessing.mean) != self.input.channels:
            raise ValueError(
                f"preprocessing has {len(self.preprocessing.mean)} channel(s), the input {self.input.channels}"
            )

    def interface(self) -> dict[str, Any]:
        """Describe size of the images, class names and normalisation."""
        return {
            "input": dataclasses.asdict(self.input) | {"color": self.input.color},
            "labels": list(self.labels),
            "preprocessing": dataclasses.asdict(self.preprocessing),
        }


@dataclass(frozen=True, kw_only=True)
class TableArtifactConfig(ArtifactConfig):
    """A regressor or classifier of rows.

    Args:
        columns: name of each feature, in the order of the inputs.
        target: name of the target column.
        standardization: mean and deviation per column, and of the target.
    """

    columns: tuple[str, ...]
    target: str
    standardization: StandardizationConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.columns) <= _MAX_COLUMNS:
            raise ValueError(f"input has {len(self.columns)} columns, expected 1 to {_MAX_COLUMNS}")
        if self.labels is not None:
            check_names(self.labels)
        if len(self.standardization.mean) != len(self.columns):
            raise ValueError(
                f"standardization has {len(self.standardization.mean)} column(s), the input {len(self.columns)}"
            )

    def interface(self) -> dict[str, Any]:
        """Describe names of columns, target and classes, and standardisation."""
        return {
            "input": {"columns": list(self.columns)},
            "target": self.target,
            "labels": None if self.labels is None else list(self.labels),
            "standardization": dataclasses.asdict(self.standardization),
        }


def _read_images(values: dict[str, Any], common: dict[str, Any]) -> ArtifactConfig:
    size = values["input"]
    return ImageArtifactConfig(
        **common,
        input=InputSpec(channels=int(size["channels"]), height=int(size["height"]), width=int(size["width"])),
        labels=_names(values["labels"]),
        preprocessing=PreprocessingConfig(
            mean=tuple(values["preprocessing"]["mean"]), std=tuple(values["preprocessing"]["std"])
        ),
    )


def _read_rows(values: dict[str, Any], common: dict[str, Any]) -> ArtifactConfig:
    scale = values["standardization"]
    return TableArtifactConfig(
        **common,
        columns=_names(values["input"]["columns"]),
        target=str(values["target"]),
        labels=None if values["labels"] is None else _names(values["labels"]),
        standardization=StandardizationConfig(
            mean=tuple(scale["mean"]),
            std=tuple(scale["std"]),
            target_mean=float(scale["target_mean"]),
            target_std=float(scale["target_std"]),
        ),
    )


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"labels or columns is {values!r}, expected a list of names")
    return tuple(str(value) for value in values)

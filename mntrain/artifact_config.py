"""Content of an artifact's ``config.json``: the description of a trained model."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from mntrain.config import ExperimentConfig
from mntrain.data.config import ImageFit
from mntrain.data.labels import check_names
from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.data.row_layout import RowLayout
from mntrain.data.standardization import Scale, StandardizationConfig
from mntrain.data.tables import Categories
from mntrain.networks.record import NetworkRecord

SCHEMA = 3
READABLE = (1, 2, 3)
"""Schemas that this version reads: 2 added models of rows, 3 their categories, missing numbers and several targets."""
_MAX_SIDE = 4096
_MAX_COLUMNS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Size of the images that a model takes.

    Args:
        channels: 1 (grey) or 3 (RGB).
        height: pixels.
        width: pixels.
        fit: how images of other sizes were brought to this one; None where training had no rule for it.
    """

    channels: int
    height: int
    width: int
    fit: ImageFit | None = None

    def __post_init__(self) -> None:
        if self.channels not in (1, 3) or not (1 <= self.height <= _MAX_SIDE and 1 <= self.width <= _MAX_SIDE):
            raise ValueError(
                f"input is {self.channels} x {self.height} x {self.width}, expected 1 or 3 channels and sides of 1 to "
                f"{_MAX_SIDE} pixels"
            )
        if self.fit is not None and self.fit not in get_args(ImageFit):
            raise ValueError(f"input has the fit {self.fit!r}, expected one of {get_args(ImageFit)}")

    @property
    def color(self) -> str:
        """Colour mode in Pillow's names: L or RGB."""
        return "L" if self.channels == 1 else "RGB"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as written to ``config.json``; no ``fit`` where there is no rule."""
        values = dataclasses.asdict(self) | {"color": self.color}
        if self.fit is None:
            del values["fit"]
        return values


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
        adapted: where a model comes from that was adapted to a support set: ``method``, ``settings``, ``start`` (path,
            name, family, digest and classes of an artifact) and ``support``; None for a trained one.
        network: frozen network whose features are the rows that the model takes
            (:class:`~mntrain.networks.record.NetworkRecord`); None for a model that takes the data itself.
        head: how a head on features was made: ``method``, ``settings``, ``scores``; None for a trained family.
    """

    experiment: ExperimentConfig
    split: dict[str, Any]
    metrics: dict[str, Any]
    versions: dict[str, str]
    labels: tuple[str, ...] | None
    data: dict[str, Any] | None = None
    adapted: dict[str, Any] | None = None
    network: NetworkRecord | None = None
    head: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.split.get("sha256"), str):
            raise ValueError("split has no sha256")
        if self.adapted is not None:
            _check_adapted(self.adapted)
        if self.head is not None and not isinstance(self.head.get("method"), str):
            raise ValueError("head names no method")

    @property
    def family(self) -> str:
        """The model family."""
        return self.experiment.family

    @property
    def samples_are(self) -> str:
        """Word for the examples that the artifact holds: held-out, or support where it was adapted to them."""
        return "held-out" if self.adapted is None else "support"

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
            **({} if self.adapted is None else {"adapted": self.adapted}),
            **({} if self.network is None else {"network": self.network.to_dict()}),
            **({} if self.head is None else {"head": self.head}),
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
            "adapted": None if values.get("adapted") is None else dict(values["adapted"]),
            "network": None if values.get("network") is None else NetworkRecord.from_dict(values["network"]),
            "head": None if values.get("head") is None else dict(values["head"]),
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
            "input": self.input.to_dict(),
            "labels": list(self.labels),
            "preprocessing": dataclasses.asdict(self.preprocessing),
        }


@dataclass(frozen=True, kw_only=True)
class TableArtifactConfig(ArtifactConfig):
    """A regressor or classifier of rows.

    Args:
        columns: name of each feature, in the order of the inputs: first numbers, then categories.
        categories: vocabulary of each category column, in the order of its codes.
        targets: name of the target column, or of several columns of values.
        standardization: mean, deviation and stand-in per column of numbers, and mean and deviation of the targets.
    """

    columns: tuple[str, ...]
    categories: Categories = field(default_factory=dict)
    targets: tuple[str, ...]
    standardization: StandardizationConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.columns) <= _MAX_COLUMNS:
            raise ValueError(f"input has {len(self.columns)} columns, expected 1 to {_MAX_COLUMNS}")
        if self.columns[len(self.columns) - len(self.categories) :] != tuple(self.categories):
            raise ValueError(f"the last columns are not the categories {', '.join(self.categories)}")
        for name, vocabulary in self.categories.items():
            if not vocabulary or len(set(vocabulary)) < len(vocabulary):
                raise ValueError(f"the categories of {name!r} are empty, or two of them are alike")
        if self.labels is not None:
            check_names(self.labels)
        if len(self.standardization.mean) != len(self.numbers):
            raise ValueError(
                f"standardization has {len(self.standardization.mean)} column(s), the input {len(self.numbers)}"
            )
        scales = np.shape(self.standardization.target_mean)
        if not self.targets or scales != ((len(self.targets),) if len(self.targets) > 1 else ()):
            raise ValueError(f"standardization has target_mean of shape {scales} for {len(self.targets)} target(s)")
        if len(self.targets) > 1 and self.labels is not None:
            raise ValueError("several targets have labels, expected values")

    @property
    def numbers(self) -> tuple[str, ...]:
        """Name of each column of numbers."""
        return self.columns[: len(self.columns) - len(self.categories)]

    @property
    def layout(self) -> RowLayout:
        """Columns by which new rows are laid out."""
        return RowLayout(
            numbers=self.numbers,
            categories=self.categories,
            imputed=self.standardization.fill is not None,
            targets=self.targets,
            labels=self.labels,
        )

    @property
    def target(self) -> str:
        """Name of the target; several with commas between them."""
        return ", ".join(self.targets)

    def interface(self) -> dict[str, Any]:
        """Describe names of columns, targets and classes, categories and standardisation."""
        scale = self.standardization
        vocabularies = {name: list(values) for name, values in self.categories.items()}
        return {
            "input": {"columns": list(self.columns)} | ({"categories": vocabularies} if vocabularies else {}),
            **({"target": self.target} if len(self.targets) == 1 else {"targets": list(self.targets)}),
            "labels": None if self.labels is None else list(self.labels),
            "standardization": {
                "mean": list(scale.mean),
                "std": list(scale.std),
                "fill": None if scale.fill is None else list(scale.fill),
                "target_mean": _plain(scale.target_mean),
                "target_std": _plain(scale.target_std),
            },
        }


def _read_images(values: dict[str, Any], common: dict[str, Any]) -> ArtifactConfig:
    size = values["input"]
    return ImageArtifactConfig(
        **common,
        input=InputSpec(
            channels=int(size["channels"]), height=int(size["height"]), width=int(size["width"]), fit=size.get("fit")
        ),
        labels=_names(values["labels"]),
        preprocessing=PreprocessingConfig(
            mean=tuple(values["preprocessing"]["mean"]), std=tuple(values["preprocessing"]["std"])
        ),
    )


def _read_rows(values: dict[str, Any], common: dict[str, Any]) -> ArtifactConfig:
    scale, described = values["standardization"], values["input"]
    categories = {str(name): _names(names) for name, names in dict(described.get("categories", {})).items()}
    return TableArtifactConfig(
        **common,
        columns=_names(described["columns"]),
        categories=categories,
        targets=_names(values["targets"]) if "targets" in values else (str(values["target"]),),
        labels=None if values["labels"] is None else _names(values["labels"]),
        standardization=StandardizationConfig(
            mean=tuple(scale["mean"]),
            std=tuple(scale["std"]),
            fill=None if scale.get("fill") is None else tuple(scale["fill"]),
            category_sizes=tuple(len(names) for names in categories.values()),
            target_mean=_scale(scale["target_mean"]),
            target_std=_scale(scale["target_std"]),
        ),
    )


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"labels or columns is {values!r}, expected a list of names")
    return tuple(str(value) for value in values)


def _check_adapted(record: dict[str, Any]) -> None:
    """Check the parts that are read again; further ones are for people."""
    start, support = record.get("start"), record.get("support")
    if not isinstance(start, dict) or not isinstance(start.get("path"), str):
        raise ValueError("adapted names no artifact that it started from")
    _names(start.get("classes"))
    if not isinstance(support, dict) or not isinstance(support.get("images"), int):
        raise ValueError("adapted has no number of support images")


def _plain(scale: Scale) -> float | list[float]:
    return list(scale) if isinstance(scale, tuple) else scale


def _scale(value: Any) -> Scale:
    return tuple(float(item) for item in value) if isinstance(value, list) else float(value)

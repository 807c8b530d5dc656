"""Input of a report: the artifact of a run, its history and its data."""

import csv
import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mntrain.analysis.trained_sweeps import TrainedSweep, read_sweeps
from mntrain.artifact import ImageArtifact, TableArtifact, load_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageData, SourceImages
from mntrain.data.loading import load_source
from mntrain.data.registry import find_source
from mntrain.data.split_record import SPLITS
from mntrain.data.tables import TableData
from mntrain.errors import ArtifactError, ConfigError
from mntrain.models.neighbors import NeighborClassifier
from mntrain.plotting.style import LARGEST
from mntrain.training.artifact_data import load_data


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Run, data and output of a report.

    Args:
        run: runs/NAME.
        data_path: where the data lies now, if it has moved.
        fine_labels: column of finer labels (source ``datasets`` only).
        comparisons: ``compare.json`` files whose sweeps are shown.
        images: largest number of examples of a split to look at.
        output: the page; None is RUN/report.html.
        quiet: no progress.
    """

    run: Path
    data_path: str | None = None
    fine_labels: str | None = None
    comparisons: tuple[Path, ...] = ()
    images: int = 2000
    output: Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if not 20 <= self.images <= 100_000:
            raise ConfigError(f"--images is {self.images}; it must be from 20 to 100000 (2000 is the default).")

    @property
    def page(self) -> Path:
        """Path of the page."""
        return self.run / "report.html" if self.output is None else self.output


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportInput:
    """Loaded run.

    Args:
        options: run, data and output of the report.
        artifact: the trained model.
        history: name of each column of ``metrics.csv`` → its values; empty where the file is missing.
        data: the splits.
        sweeps: those of all given comparisons.
        fine: finer labels of all images; None where none are asked for.
    """

    options: ReportOptions
    artifact: ImageArtifact | TableArtifact
    history: dict[str, list[float]]
    data: ImageData | TableData
    sweeps: tuple[TrainedSweep, ...]
    fine: "FineLabels | None"

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names; empty where values are estimated."""
        return self.artifact.config.labels or ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Name of each estimated column; empty for classification."""
        config = self.artifact.config
        return config.targets if isinstance(config, TableArtifactConfig) and config.labels is None else ()

    @property
    def nouns(self) -> str:
        """Word for the examples: images or rows."""
        return "images" if isinstance(self.artifact, ImageArtifact) else "rows"

    @property
    def adaptive(self) -> NeighborClassifier | None:
        """The model, if it is a classifier with neighbors."""
        model = self.artifact.model
        return model if isinstance(model, NeighborClassifier) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class FineLabels:
    """Labels that the model was not trained with.

    Args:
        column: column of the labels.
        names: class names.
        train, validation, test: int64 [N], in the order of the splits.
    """

    column: str
    names: tuple[str, ...]
    train: IndexArray
    validation: IndexArray
    test: IndexArray


def load_report_input(options: ReportOptions) -> ReportInput:
    """Read a run, and find its data again.

    Raises:
        ArtifactError: the run has no artifact, or one that cannot be read; or a comparison cannot be.
        DataError: its data is not there, or has changed.
        ConfigError: finer labels are asked for where there are none.
    """
    folder = options.run / "artifact"
    if options.run.is_dir() and not folder.is_dir():
        itself = (options.run / "model.safetensors").is_file()
        remedy = "give the folder above it, runs/NAME" if itself else "finish it with `mntrain fit … --resume`"
        raise ArtifactError(f"{options.run} is no run with a folder `artifact`, so there is nothing to show; {remedy}.")
    if not options.run.is_dir():
        raise ArtifactError(f"There is no run {options.run}; give the folder runs/NAME that `mntrain fit` has written.")
    sweeps = tuple(sweep for file in options.comparisons for sweep in read_sweeps(file))
    artifact = load_artifact(folder)
    assert isinstance(artifact, ImageArtifact | TableArtifact)
    data = load_data(artifact.config, options.data_path)
    return ReportInput(
        options=options,
        artifact=artifact,
        history=_history(options.run / "metrics.csv"),
        data=data,
        sweeps=sweeps,
        fine=None if options.fine_labels is None else _fine(artifact, data, options),
    )


def _fine(artifact: ImageArtifact | TableArtifact, data: ImageData | TableData, options: ReportOptions) -> FineLabels:
    """Load finer labels by the positions of the images in the source, since a split drawn anew would differ."""
    config = artifact.config.experiment.data
    if "label_column" not in find_source(config.source).options:
        raise ConfigError(
            f"--fine-labels is {options.fine_labels!r}, but data.source {config.source!r} of this run has no columns; "
            "leave it out."
        )
    source = load_source(
        # Positions are those in the whole source, whose finer classes have names of their own.
        dataclasses.replace(
            config, label_column=options.fine_labels, path=options.data_path or config.path, classes=None
        )
    )
    assert isinstance(source, SourceImages)  # no other source has a column of labels
    assert options.fine_labels is not None
    labels = {part: source.splits[data.split.origins[part]].labels[data.split.indices[part]] for part in SPLITS}
    return FineLabels(column=options.fine_labels, names=source.label_names, **labels)


def _history(file: Path) -> dict[str, list[float]]:
    if not file.is_file():
        return {}
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        history = {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else {})}
        if not all(bool((np.abs(values) < LARGEST).all()) for values in history.values()):
            raise ValueError("it holds values that are not finite, or too large to be drawn")
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise ArtifactError(f"{file} cannot be read ({error}); restore it, or move it away.") from error
    return history

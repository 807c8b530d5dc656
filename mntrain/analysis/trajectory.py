"""Answers and neighbors of a model in the plane after every epoch that was kept.

Shapes: E epochs, S neighbors, G points along each side of the map, N test points, C classes.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mntrain.artifact import TableArtifact, load_artifact
from mntrain.data.tables import TableSet
from mntrain.errors import ArtifactError
from mntrain.models.neighbors import NeighborClassifier
from mntrain.regular_files import regular
from mntrain.training.artifact_data import load_data

_SIDE = 240
_MARGIN = 0.06
_KEPT = re.compile(r"epoch-(\d+)\.safetensors")


@dataclass(frozen=True, kw_only=True, eq=False)
class Moment:
    """Answers and neighbors after one kept epoch.

    Args:
        epoch: number of trained epochs; 0 is before training.
        shares: probability of each class on the map, [G, G, C], the first axis upwards.
        predicted: class of every test point, int64 [N].
        accuracy: share of test points that are right.
        keys: neighbors in the plane [S, 2]; None where the family has none.
    """

    epoch: int
    shares: NDArray[np.float32]
    predicted: NDArray[np.int64]
    accuracy: float
    keys: NDArray[np.float64] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """All kept epochs of a run in the plane.

    Args:
        axes: names of the two columns.
        labels: class names.
        test: test points.
        bounds: left, right, lower and upper edge of the map.
        classes: class of each neighbor [S], of the last epoch; None where the family has none.
        moments: the kept epochs, in their order.
    """

    axes: tuple[str, str]
    labels: tuple[str, ...]
    test: TableSet
    bounds: tuple[float, float, float, float]
    classes: NDArray[np.int64] | None
    moments: tuple[Moment, ...]


def kept_epochs(run: Path) -> dict[int, Path]:
    """Map each epoch that a run has kept to the file of its weights.

    Raises:
        ArtifactError: fewer than two are kept.
    """
    matches = ((_KEPT.fullmatch(file.name), file) for file in sorted((run / "checkpoints").glob("epoch-*.safetensors")))
    weights = {int(match.group(1)): file for match, file in matches if match}
    if len(weights) < 2:
        raise ArtifactError(
            f"Run {run} has kept the weights of {len(weights)} epoch(s), so nothing moves; train it with "
            "--training.keep_every 1 (--overwrite replaces this run)."
        )
    return weights


class Observer:
    """Runs the model of each kept epoch on the plane.

    Args:
        run: runs/NAME.
        data_path: where the data lies now, if it has moved.

    Raises:
        ArtifactError: the run has no artifact, or its model is no classifier of points in the plane.
        DataError: its data is not there, or has changed.
    """

    def __init__(self, run: Path, data_path: str | None = None) -> None:
        artifact = load_artifact(run / "artifact")
        labels = artifact.config.labels if isinstance(artifact, TableArtifact) else None
        if not isinstance(artifact, TableArtifact) or labels is None or not _is_plane(artifact):
            raise ArtifactError(
                f"The model of run {run} does not tell classes of points in the plane apart; an animation needs a "
                "table of two columns of numbers, none missing, with classes, such as the recipe spiral."
            )
        self._artifact, self._labels = artifact, labels
        test = load_data(artifact.config, data_path).part("test")
        assert isinstance(test, TableSet)  # the digest of the data is checked
        self._test = test
        self._bounds = _bounds(test)
        left, right, low, high = self._bounds
        x, y = np.meshgrid(np.linspace(left, right, _SIDE), np.linspace(low, high, _SIDE))
        self._grid = torch.from_numpy(np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32))

    @torch.inference_mode()
    def moment(self, epoch: int, weights: Path) -> Moment:
        """Load the weights after ``epoch``, and run the model on map and test points.

        Raises:
            ArtifactError: the weights cannot be read, or are of another model.
        """
        model = self._artifact.model
        try:
            model.load_state_dict(load_file(str(regular(weights))))
        except (SafetensorError, OSError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise ArtifactError(
                f"{weights} does not fit the run's artifact ({reason}); train the run again."
            ) from error
        predicted = self._answer(torch.from_numpy(self._test.inputs)).argmax(dim=-1).numpy()
        shares = torch.softmax(self._answer(self._grid), dim=-1).numpy().reshape(_SIDE, _SIDE, len(self._labels))
        return Moment(
            epoch=epoch,
            shares=shares,
            predicted=predicted,
            accuracy=float((predicted == self._test.targets).mean()),
            keys=self._keys(),
        )

    def trajectory(self, moments: list[Moment]) -> Trajectory:
        """Collect the moments. The classes of the neighbors are those of the last loaded epoch."""
        model, config = self._artifact.model, self._artifact.config
        classes = None
        if isinstance(model, NeighborClassifier):
            classes = model.entry_labels().numpy()
        return Trajectory(
            axes=(config.columns[0], config.columns[1]),
            labels=self._labels,
            test=self._test,
            bounds=self._bounds,
            classes=classes,
            moments=tuple(moments),
        )

    def _answer(self, points: Tensor) -> Tensor:
        """Return the logits [B, C] of points in their own units, after adaptation where there is any."""
        prediction: Any = self._artifact.model(self._artifact.preprocessing(points))
        logits: Tensor = prediction.logits
        return logits

    def _keys(self) -> NDArray[np.float64] | None:
        """Return the keys in the units of the points; None where features are not the points themselves."""
        model, scale = self._artifact.model, self._artifact.config.standardization
        if not isinstance(model, NeighborClassifier) or self._artifact.config.experiment.backbone.name != "identity":
            return None
        keys = model.entry_keys().double().numpy()
        placed: NDArray[np.float64] = keys * np.array(scale.std) + np.array(scale.mean)
        return placed


def _is_plane(artifact: TableArtifact) -> bool:
    config = artifact.config
    return len(config.columns) == len(config.numbers) == 2 and config.standardization.fill is None


def _bounds(test: TableSet) -> tuple[float, float, float, float]:
    """Return left, right, lower and upper edge of a square around the test points, with a margin."""
    low, high = test.inputs.min(axis=0).astype(float), test.inputs.max(axis=0).astype(float)
    centre, half = (low + high) / 2, (high - low).max() / 2 * (1 + 2 * _MARGIN)
    return centre[0] - half, centre[0] + half, centre[1] - half, centre[1] + half

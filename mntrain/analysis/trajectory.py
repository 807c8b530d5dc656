"""What a model in the plane answered, and where its neighbors were, after every epoch that was kept.

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
from mntrain.training.artifact_data import load_data

_SIDE = 240
_MARGIN = 0.06
_KEPT = re.compile(r"epoch-(\d+)\.safetensors")


@dataclass(frozen=True, kw_only=True, eq=False)
class Moment:
    """One kept epoch.

    Args:
        epoch: epochs behind it; 0 is before training.
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
    """A run in the plane.

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
    """Epoch → weights, of all that a run has kept.

    Raises:
        ArtifactError: it has kept fewer than two.
    """
    matches = ((_KEPT.fullmatch(file.name), file) for file in sorted((run / "checkpoints").glob("epoch-*.safetensors")))
    found = {int(match.group(1)): file for match, file in matches if match}
    if len(found) < 2:
        raise ArtifactError(
            f"Run {run} has kept the weights of {len(found)} epoch(s), so nothing moves; train it with "
            "--training.keep_every 1 (--overwrite replaces this run)."
        )
    return found


class Observer:
    """Looks at a run in the plane, epoch by epoch.

    Args:
        run: runs/NAME.
        data_path: where the data lies now, if it has moved.

    Raises:
        ArtifactError: the run has no artifact, or its model takes no points of the plane, or tells no classes apart.
        DataError: its data is not there, or has changed.
    """

    def __init__(self, run: Path, data_path: str | None = None) -> None:
        artifact = load_artifact(run / "artifact")
        labels = artifact.config.labels if isinstance(artifact, TableArtifact) else None
        if not isinstance(artifact, TableArtifact) or labels is None or len(artifact.config.columns) != 2:
            raise ArtifactError(
                f"The model of run {run} does not tell classes of points in the plane apart; an animation needs a "
                "table of two columns with classes, such as the recipe spiral."
            )
        self._artifact, self._labels = artifact, labels
        test = load_data(artifact.config, data_path).part("test")
        assert isinstance(test, TableSet)  # the digest says so
        self._test = test
        self._bounds = _bounds(test)
        left, right, low, high = self._bounds
        x, y = np.meshgrid(np.linspace(left, right, _SIDE), np.linspace(low, high, _SIDE))
        self._grid = torch.from_numpy(np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32))

    @torch.inference_mode()
    def moment(self, epoch: int, weights: Path) -> Moment:
        """What the model was like after ``epoch``.

        Raises:
            ArtifactError: the weights cannot be read, or are of another model.
        """
        model = self._artifact.model
        try:
            model.load_state_dict(load_file(str(weights)))
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
        """All moments with what they have in common; call it after the last one was looked at."""
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
        """Logits [B, C] of points in their own units, after adaptation where there is any."""
        prediction: Any = self._artifact.model(self._artifact.preprocessing(points))
        logits: Tensor = prediction.logits
        return logits

    def _keys(self) -> NDArray[np.float64] | None:
        """Keys in the units of the points: only where features are the points themselves do they lie in the plane."""
        model, scale = self._artifact.model, self._artifact.config.standardization
        if not isinstance(model, NeighborClassifier) or self._artifact.config.experiment.backbone.name != "identity":
            return None
        keys = model.entry_keys().double().numpy()
        placed: NDArray[np.float64] = keys * np.array(scale.std) + np.array(scale.mean)
        return placed


def _bounds(test: TableSet) -> tuple[float, float, float, float]:
    """A square around the test points with a margin."""
    low, high = test.inputs.min(axis=0).astype(float), test.inputs.max(axis=0).astype(float)
    centre, half = (low + high) / 2, (high - low).max() / 2 * (1 + 2 * _MARGIN)
    return centre[0] - half, centre[0] + half, centre[1] - half, centre[1] + half

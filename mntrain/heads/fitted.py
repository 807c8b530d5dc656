"""Head that ``mntrain fit`` has trained on a store: a model of any family on the features themselves.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mntrain.artifact import TableArtifact, load_artifact, save_artifact
from mntrain.config import ExperimentConfig
from mntrain.feature_store.store import open_store
from mntrain.networks.sample_images import NETWORK_IMAGES
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

_ROWS = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedHead:
    """Trained model as a head.

    Args:
        artifact: the model, in memory.
        metrics: result of its run, the content of ``metrics.json``.
        files: further files of its artifact by name.
    """

    artifact: TableArtifact
    metrics: Mapping[str, Any]
    files: Mapping[str, bytes]

    @classmethod
    def train(cls, config: ExperimentConfig) -> FittedHead:
        """Train a run on a feature store in a folder that is removed afterwards.

        Raises: as :func:`mntrain.training.fit.fit`.
        """
        with TemporaryDirectory(prefix="mntrain-head-") as folder:
            metrics = fit(config, FitOptions(runs=Path(folder), quiet=True))
            path = Path(folder) / config.name / "artifact"
            artifact = load_artifact(path)
            images = path / NETWORK_IMAGES
            files = {NETWORK_IMAGES: images.read_bytes()} if images.exists() else {}
        assert metrics is not None
        assert isinstance(artifact, TableArtifact)
        return cls(artifact=artifact, metrics=metrics, files=files)

    @property
    def parameters(self) -> int:
        """Number of learned numbers."""
        return int(self.metrics["parameters"])

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features [N, d] → logits [N, C], after adaptation where the family adapts."""
        with torch.inference_mode():
            parts = [
                self.artifact.model(self.artifact.preprocessing(torch.from_numpy(np.array(rows))))[0].numpy()
                for rows in _chunks(features)
            ]
        return np.concatenate(parts)

    def save(self, path: Path, name: str, head: Mapping[str, Any]) -> None:
        """Write the artifact under the name of a run, with ``head`` and the store's digest in its configuration.

        Raises:
            ArtifactError: the folder cannot be written.
            DataError: the store cannot be read any more.
        """
        trained = self.artifact.config
        store = trained.experiment.data.path
        assert store is not None
        config = replace(
            trained,
            experiment=replace(trained.experiment, name=name),
            split=trained.split | {"sha256": open_store(store).sha256},
            head=dict(head),
        )
        save_artifact(path, config, self.artifact.model.state_dict(), self.artifact.samples, self.files)


def _chunks(features: NDArray[np.float32]) -> Sequence[NDArray[np.float32]]:
    return [features[start : start + _ROWS] for start in range(0, len(features), _ROWS)]

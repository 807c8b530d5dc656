"""A linear head as an ordinary artifact of rows, which are features of a frozen network.

Shapes: C classes, d features, M samples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mntrain.artifact import current_versions, save_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.backbones.config import BackboneConfig
from mntrain.config import ExperimentConfig
from mntrain.data.config import DataConfig
from mntrain.data.split_record import SPLITS
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.feature_store.samples import read_samples
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.classifier import LinearClassifier
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.networks.sample_images import NETWORK_IMAGES, image_file
from mntrain.training.setup import spread

COMPOSITION = "composition.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadArtifact:
    """Content of the artifact of a linear head.

    Args:
        name: of the run.
        store: features that it was learned from.
        classifier: of stored features.
        seed: of the training.
        metrics: result, as ``metrics.json`` has it.
        head: ``method``, ``settings`` and ``scores``.
        composition: content of ``composition.json``; None where no class is composed.
    """

    name: str
    store: FeatureStore
    classifier: LinearClassifier
    seed: int
    metrics: Mapping[str, Any]
    head: Mapping[str, Any]
    composition: Mapping[str, Any] | None = None

    def config(self) -> TableArtifactConfig:
        """Describe a linear model of the vanilla family on rows of features."""
        store = self.store
        return TableArtifactConfig(
            experiment=ExperimentConfig(
                name=self.name,
                family="vanilla",
                model=VanillaConfig(head="dot"),
                seed=self.seed,
                normalization="none",
                data=DataConfig(source="features", path=str(store.path)),
                backbone=BackboneConfig(name="identity"),
            ),
            columns=tuple(f"feature_{place}" for place in range(store.features)),
            targets=("class",),
            labels=store.label_names,
            standardization=StandardizationConfig.identity(store.features),
            split={"counts": {name: len(store.part(name)) for name in SPLITS}, "sha256": store.sha256},
            metrics=dict(self.metrics),
            versions=current_versions(),
            network=store.network,
            head=dict(self.head),
        )

    def save(self, path: Path) -> None:
        """Write the artifact.

        Raises:
            ArtifactError: the folder cannot be written.
            DataError: the store's samples cannot be read.
        """
        weight = np.concatenate([self.classifier.weight, self.classifier.bias[:, None]], axis=1)
        rows, images = head_samples(self.store)
        files = {} if images is None else {NETWORK_IMAGES: images}
        if self.composition is not None:
            text = json.dumps(self.composition, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            files[COMPOSITION] = text.encode()
        save_artifact(path, self.config(), {"head.weight": torch.from_numpy(weight)}, rows, files)


def head_samples(store: FeatureStore) -> tuple[TableSet, bytes | None]:
    """Return features of sample images, and a file of the images; test rows and None where there are no images.

    Raises:
        DataError: the samples of the store are damaged.
    """
    samples = read_samples(store)
    if samples is None:
        places = spread(len(store.test))
        return TableSet(inputs=store.test.features[places], targets=store.test.labels[places]), None
    return TableSet(inputs=samples.features, targets=samples.labels), image_file(samples.images)

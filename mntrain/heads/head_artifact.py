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
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from mntrain.artifact import current_versions, save_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.backbones.config import BackboneConfig
from mntrain.config import ExperimentConfig
from mntrain.data.config import DataConfig
from mntrain.data.registry import SOURCES
from mntrain.data.split_record import SPLITS
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.errors import DataError
from mntrain.feature_store.store import SAMPLES, FeatureStore
from mntrain.heads.classifier import LinearClassifier
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.regular_files import regular
from mntrain.training.setup import spread

COMPOSITION = "composition.json"
IMAGES = "network_images.safetensors"
"""Extra file of an artifact: the images whose features are its samples."""


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
        # A table is the nearest source where none reads features.
        source = "features" if "features" in SOURCES else "table"
        return TableArtifactConfig(
            experiment=ExperimentConfig(
                name=self.name,
                family="vanilla",
                model=VanillaConfig(head="dot"),
                seed=self.seed,
                normalization="none",
                data=DataConfig(source=source, path=str(store.path)),
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
        files = {} if images is None else {IMAGES: images}
        if self.composition is not None:
            text = json.dumps(self.composition, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            files[COMPOSITION] = text.encode()
        save_artifact(path, self.config(), {"head.weight": torch.from_numpy(weight)}, rows, files)


def head_samples(store: FeatureStore) -> tuple[TableSet, bytes | None]:
    """Return features of sample images, and a file of the images; test rows and None where there are no images.

    Raises:
        DataError: the samples of the store are damaged.
    """
    file = store.path / SAMPLES
    if not file.exists():
        places = spread(len(store.test))
        return TableSet(inputs=store.test.features[places], targets=store.test.labels[places]), None
    try:
        arrays = load_file(str(regular(file)))
        rows = TableSet(inputs=arrays["features"], targets=arrays["labels"])
        return rows, save({"images": arrays["images"]})
    except (OSError, SafetensorError, KeyError) as error:
        raise DataError(f"{file} is damaged ({error}); write the store again with `mntrain features`.") from error

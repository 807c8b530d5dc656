"""Writing of a feature store from arrays that are at hand.

Shapes: N examples of a split, d features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mntrain.atomic_files import folder_atomically, follow_umask
from mntrain.data.images import ImageSet
from mntrain.data.split_record import SPLITS
from mntrain.feature_store.store import CLASSIFIER, RECORD, SAMPLES, SCHEMA, FeatureSplit
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.record import NetworkRecord

_ROWS = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class StoreContent:
    """Content of a feature store; fields as in :class:`~mntrain.feature_store.store.FeatureStore`.

    Args:
        samples: test images and their labels; None where there are no images.
        sample_features: features float32 [M, d] of the samples.
    """

    network: NetworkRecord
    label_names: tuple[str, ...]
    splits: Mapping[str, FeatureSplit]
    crops: int = 1
    classifier: LinearClassifier | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    samples: ImageSet | None = None
    sample_features: Any = None


def write_store(path: Path, content: StoreContent) -> None:
    """Write a feature store whole or not at all; an older one at ``path`` is replaced."""
    with folder_atomically(path) as folder:
        for name in SPLITS:
            part = content.splits[name]
            (folder / name).mkdir()
            np.save(folder / name / "features.npy", part.features)
            np.save(folder / name / "labels.npy", part.labels)
        write_description(folder, content)


def write_description(folder: Path, content: StoreContent) -> str:
    """Write what a store has beside its features and labels; returns the digest of those.

    Args:
        folder: that holds the files of all splits.
        content: whose features may be mapped from these files.
    """
    if content.classifier is not None:
        arrays = {"weight": content.classifier.weight, "bias": content.classifier.bias}
        save_file(arrays, str(folder / CLASSIFIER))
    if content.samples is not None:
        samples: dict[str, Any] = {"images": content.samples.images, "labels": content.samples.labels}
        save_file(samples | {"features": content.sample_features}, str(folder / SAMPLES))
    for file in folder.glob("*.safetensors"):
        follow_umask(file)
    record = {
        "schema": SCHEMA,
        "network": content.network.to_dict(),
        "label_names": list(content.label_names),
        "crops": content.crops,
        "counts": {name: len(content.splits[name]) for name in SPLITS},
        "sha256": store_digest(content.splits),
        "data": dict(content.data),
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")
    return str(record["sha256"])


def store_digest(splits: Mapping[str, FeatureSplit]) -> str:
    """Compute the digest of features and labels of all splits."""
    digest = hashlib.sha256()
    for name in SPLITS:
        part = splits[name]
        digest.update(f"{name} {part.features.shape}\n".encode())
        for start in range(0, len(part), _ROWS):
            digest.update(np.ascontiguousarray(part.features[start : start + _ROWS]).tobytes())
        digest.update(np.ascontiguousarray(part.labels).tobytes())
    return digest.hexdigest()

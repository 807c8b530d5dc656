"""Key of a feature store: everything that decides its values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mntrain.config_fields import differing_fields
from mntrain.data.augmentation import AugmentationConfig
from mntrain.data.config import DataConfig
from mntrain.networks.record import NetworkRecord

# Files and folders may have moved; digests tell whether they are still the same.
_MAY_DIFFER = frozenset({"network.name", "data.path", "data.leaks"})
_SHOWN = 4


def store_key(
    network: NetworkRecord, config: DataConfig, split: str, views: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Make the key, plain values.

    Args:
        network: that computes the features.
        config: of the data.
        split: digest of images, labels and split.
        views: crops, seed, batch and augmentation of several views; None for one.
    """
    key = {"network": network.to_dict(), "data": config.to_dict(), "split": split, "views": dict(views or {"crops": 1})}
    plain: dict[str, Any] = json.loads(json.dumps(key))
    return plain


def view_settings(crops: int, seed: int, batch: int, augmentation: AugmentationConfig) -> dict[str, Any]:
    """Make the part of the key about several views: each batch of a view is augmented by a seed of its own."""
    changes = {name: getattr(augmentation, name) for name in augmentation.__dataclass_fields__}
    return {"crops": crops, "seed": seed, "batch": batch, "augmentation": changes}


def key_differences(stored: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    """Write what differs between two keys; empty where they mean the same store."""
    found = differing_fields(dict(stored), dict(planned), ignore=_MAY_DIFFER)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more

"""Features of a network for a data set, for Python programs.

Shapes: N examples, d features.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mntrain.feature_store.arrays.session import PREFIX, ArrayOptions, write_arrays
from mntrain.feature_store.report import FeaturesReport
from mntrain.feature_store.session import FeatureOptions, write_features
from mntrain.feature_store.store import FeatureStore, open_store
from mntrain.networks.options import NetworkOptions

_NONE: Mapping[str, Any] = MappingProxyType({})


def features(
    source: str | Path | NetworkOptions,
    store: str | Path,
    *,
    data: Mapping[str, Any] = _NONE,
    augmentation: Mapping[str, Any] = _NONE,
    crops: int = 1,
    batch: int = 64,
    seed: int = 0,
    overwrite: bool = False,
    quiet: bool = True,
) -> FeatureStore:
    """Compute the features of a trained network for all images of a data set, and keep them with the splits.

    A store that was begun is gone on with, and a finished one of the same network and data is opened as it is. Features
    that are there already, ``arrays:PLACE``, are written to a new store.

    Args:
        source: artifact folder, ``hf:NAME``, ``timm:NAME``, an ONNX file or ``arrays:PLACE``; with options where the
            file does not say how it takes pixels.
        store: folder to write.
        data: fields of ``data`` that say how images are read and split, such as ``path``; those of the artifact's
            training by default.
        augmentation: fields of ``augmentation`` for several crops, such as ``flip``; those of the artifact's training
            by default.
        crops: views of each training image, the first of them unchanged.
        batch: images computed at a time.
        seed: of the augmentation.
        overwrite: replace a store of something else.
        quiet: print no progress.

    Returns:
        The store: ``train``, ``validation`` and ``test`` with features [N, d], memory-mapped, and labels [N].

    Raises:
        ConfigError: there is no such network, options do not fit, or the folder holds something else.
        ArtifactError: the artifact is damaged, or takes rows.
        DataError: images or weights are missing or damaged, a feature is not finite, or the folder cannot be written.
    """
    network = source if isinstance(source, NetworkOptions) else NetworkOptions(source=str(source))
    options = FeatureOptions(
        network=network,
        store=Path(store),
        data=data,
        augmentation=augmentation,
        batch=batch,
        crops=crops,
        seed=seed,
        overwrite=overwrite,
        quiet=quiet,
    )
    write_any_features(options)
    return open_store(options.store)


def write_any_features(options: FeatureOptions) -> FeaturesReport:
    """Compute features with a network, or write those of foreign arrays.

    Raises:
        ConfigError, ArtifactError, DataError: as :func:`~mntrain.feature_store.session.write_features` and
            :func:`~mntrain.feature_store.arrays.session.write_arrays`.
    """
    if not options.network.source.startswith(PREFIX):
        return write_features(options)
    arrays = ArrayOptions(network=options.network, store=options.store, data=options.data, overwrite=options.overwrite)
    arrays.refuse_views(options.crops, options.augmentation)
    return write_arrays(arrays)

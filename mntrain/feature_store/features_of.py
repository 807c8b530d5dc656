"""Features of a network for a data set, for Python programs.

Shapes: N examples, d features.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mntrain.feature_store.session import FeatureOptions, write_features
from mntrain.feature_store.store import FeatureStore, open_store
from mntrain.networks.options import NetworkOptions

_NONE: Mapping[str, Any] = MappingProxyType({})


def features(
    source: str | Path | NetworkOptions,
    store: str | Path,
    *,
    data: Mapping[str, Any] = _NONE,
    crops: int = 1,
    overwrite: bool = False,
    quiet: bool = True,
) -> FeatureStore:
    """Compute the features of a trained network for all images of a data set, and keep them with the splits.

    A store that was begun is gone on with, and a finished one of the same network and data is opened as it is.

    Args:
        source: artifact folder, ``hf:NAME``, ``timm:NAME`` or an ONNX file; with options where the file does not say
            how it takes pixels.
        store: folder to write.
        data: fields of ``data`` that say how images are read and split, such as ``path``; those of the artifact's
            training by default.
        crops: views of each training image, the first of them unchanged.
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
        network=network, store=Path(store), data=data, crops=crops, overwrite=overwrite, quiet=quiet
    )
    write_features(options)
    return open_store(options.store)

"""A head on stored features, for Python programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mntrain.heads.methods.meta_neighborhoods import separate_words
from mntrain.heads.methods.registry import find_methods
from mntrain.heads.record import HeadRecord, read_record
from mntrain.heads.session import HeadOptions, compare_heads
from mntrain.heads.settings import parse_head_settings

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class MadeHead:
    """Head of one method on one store.

    Args:
        folder: of the run.
        artifact: folder that ``mnexport`` takes; None for knn, svm and mlp, which have scores alone.
        record: content of ``head.json``; ``scores`` has those of validation and test.
    """

    folder: Path
    artifact: Path | None
    record: HeadRecord


def head(
    method: str,
    features: str | Path,
    *,
    settings: Mapping[str, Any] = _NONE,
    runs: str | Path = "runs",
    name: str | None = None,
    overwrite: bool = False,
) -> MadeHead:
    """Make a new last layer on stored features of a frozen network, and write it as an artifact.

    Args:
        method: such as joint, logistic, ncm, tau, crt or lws; ``mntrain head --help`` lists them.
        features: folder of the feature store.
        settings: of the method, such as ``{"few": 30}`` or ``{"alpha.gamma": 0.6}``; of meta-neighborhoods also fields
            of the recipe ``features``, such as ``{"meta_neighborhoods.entries": 500, "training.epochs": 50}``.
        runs: folder of all runs.
        name: start of the name of the run; None takes that of the store.
        overwrite: replace an earlier run of the same name.

    Raises:
        ConfigError: there is no such method or setting, a run is there already, or the method does not fit the store.
        DataError: the store cannot be used.
        TrainingError: training fails, or the folder cannot be written.
    """
    words = [word for key, value in settings.items() for word in (_option(key), _text(value))]
    own, fitted = separate_words(words)
    options = HeadOptions(
        methods=find_methods((method,)),
        stores=(Path(features),),
        settings=parse_head_settings(own),
        fit_words=fitted,
        runs=Path(runs),
        name=name,
        overwrite=overwrite,
        quiet=True,
    )
    compare_heads(options)
    (folder,) = options.folders()
    record = read_record(folder)
    return MadeHead(folder=folder, artifact=folder / "artifact" if record["artifact"] else None, record=record)


def _option(key: str) -> str:
    return f"--{key}" if "." in key else f"--head.{key}"


def _text(value: Any) -> str:
    return "null" if value is None else str(value)

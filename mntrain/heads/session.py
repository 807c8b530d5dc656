"""Heads of several methods on several stores of features, each kept in a folder of its own.

::

    runs/NAME/artifact/      the head as an artifact, where it is linear
    runs/NAME/head.json      scores, classes, sweeps and coefficients
    runs/NAME/metrics.json   scores in short, as those of any run
    runs/NAME/config.yaml    method and settings
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mntrain.atomic_files import folder_atomically
from mntrain.errors import ConfigError, DataError, TrainingError
from mntrain.feature_store.store import FeatureStore, open_store
from mntrain.heads.feature_scale import FeatureScale, finite_chunks
from mntrain.heads.groups import ClassGroups
from mntrain.heads.head_artifact import HeadArtifact
from mntrain.heads.methods.registry import BASE, NamedMethod, find_method
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.record import RECORD, BaseScores, HeadRecord, head_record
from mntrain.heads.settings import HeadSections
from mntrain.run_progress import RunProgress


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Methods, stores and folders.

    Args:
        methods: to run on every store.
        stores: folders of features.
        seeds: of every method on every store.
        settings: of methods, in sections.
        runs: folder of all runs.
        name: start of the names of runs; None takes the name of the store.
        overwrite: replace earlier runs of the same names.
        quiet: no progress.
    """

    methods: tuple[NamedMethod, ...]
    stores: tuple[Path, ...]
    seeds: tuple[int, ...] = (0,)
    settings: HeadSections = field(default_factory=HeadSections)
    runs: Path = Path("runs")
    name: str | None = None
    overwrite: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if len({store.name for store in self.stores}) < len(self.stores):
            raise ConfigError(
                f"Stores are {', '.join(map(str, self.stores))}; runs are named by the last folder, so give each of "
                "them another name."
            )
        if (
            not self.seeds
            or len(set(self.seeds)) < len(self.seeds)
            or not all(0 <= seed < 2**31 for seed in self.seeds)
        ):
            raise ConfigError(f"--seeds is {self.seeds}; give whole numbers from 0 to {2**31 - 1}, each of them once.")
        if self.name is not None and len(self.stores) > 1:
            raise ConfigError(
                f"--name is {self.name!r}, but there are {len(self.stores)} stores, whose runs are named by them; "
                "leave it out."
            )

    def folder(self, store: Path, method: str, seed: int) -> Path:
        """Return the folder of one head."""
        suffix = "" if self.seeds == (0,) else f"-seed{seed}"
        return self.runs / f"{self.name or store.name}-{method}{suffix}"


@dataclass(frozen=True, kw_only=True)
class KeptHead:
    """A head that was made and written.

    Args:
        folder: of the run.
        record: as ``head.json`` has it.
    """

    folder: Path
    record: HeadRecord


def make_heads(options: HeadOptions) -> tuple[KeptHead, ...]:
    """Make a head of each method on each store with each seed, and write them.

    Raises:
        ConfigError: a run is there already, or a method does not fit the store.
        DataError: a store cannot be used.
        TrainingError: training fails, or a folder cannot be written.
    """
    folders = [
        options.folder(store, method.name, seed)
        for store in options.stores
        for seed in options.seeds
        for method in options.methods
    ]
    _check_folders(folders, options)
    opened = [usable_store(path) for path in options.stores]
    kept: list[KeptHead] = []
    with RunProgress(len(folders), quiet=options.quiet) as progress:
        for path, store in zip(options.stores, opened, strict=True):
            scale = FeatureScale.of(store.train.features, f"training rows of {path}")
            for seed in options.seeds:
                maker = _Maker(store=store, scale=scale, settings=options.settings, seed=seed)
                for method in options.methods:
                    head = maker.keep(method, options.folder(path, method.name, seed))
                    kept.append(head)
                    test = head.record["scores"]["test"]["all"]
                    progress.finish_run(f"{head.folder}: test accuracy {test['accuracy']:.2%}")
    return tuple(kept)


def usable_store(path: Path) -> FeatureStore:
    """Open a store, and check that heads can learn from it.

    Raises:
        DataError: a class has no training row, or a value is not finite.
    """
    store = open_store(path)
    empty = [name for name, count in zip(store.label_names, store.counts, strict=True) if not count]
    if empty:
        raise DataError(
            f"{len(empty)} class(es) of {path} have no training row, {empty[0]!r} among them; write the store again "
            "without them (--data.classes), or with examples of them."
        )
    for name in ("validation", "test"):
        for _ in finite_chunks(store.part(name).features, f"{name} rows of {path}"):
            pass
    return store


def _check_folders(folders: list[Path], options: HeadOptions) -> None:
    for folder in folders:
        if not folder.exists() and not folder.is_symlink():
            continue
        if not options.overwrite:
            raise ConfigError(f"Run {folder} exists already; choose another --name, or replace it with --overwrite.")
        if folder.is_symlink() or not (folder / RECORD).is_file():
            raise ConfigError(f"{folder} is no head of `mntrain head` and is left alone; choose another --name.")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Maker:
    """Makes heads on one store with one seed; every head that others start from is made once.

    Args:
        store: features.
        scale: their standardisation.
        settings: of methods.
        seed: of weights and draws.
        made: results by the names of methods, with the seconds that each has taken.
        scored: scores of classifiers that heads are compared with, by the names of methods.
    """

    store: FeatureStore
    scale: FeatureScale
    settings: HeadSections
    seed: int
    made: dict[str, tuple[HeadProblem, HeadResult, float]] = field(default_factory=dict)
    scored: dict[str, BaseScores] = field(default_factory=dict)

    def make(self, method: NamedMethod) -> tuple[HeadProblem, HeadResult, float]:
        """Make a head, and the one that it starts from; returns problem, result and seconds of this head alone."""
        if method.name not in self.made:
            start = None if method.start is None else self.make(find_method(method.start))[1]
            problem = HeadProblem(
                store=self.store,
                settings=self.settings,
                seed=self.seed,
                scale=self.scale,
                groups=self.groups,
                method=method.name,
                start=start,
            )
            started = time.perf_counter()
            result = method.method.run(problem)
            self.made[method.name] = problem, result, time.perf_counter() - started
        return self.made[method.name]

    @property
    def groups(self) -> ClassGroups:
        """Classes of few, medium and many."""
        shared = self.settings.head
        return ClassGroups(counts=self.store.counts, many=shared.many, few=shared.few)

    def keep(self, method: NamedMethod, folder: Path) -> KeptHead:
        """Make a head and write its folder."""
        problem, result, seconds = self.make(method)
        start = method.start or BASE
        if start not in self.scored:
            predictor = self.make(find_method(start))[1].predictor
            self.scored[start] = BaseScores.of(predictor, self.store, self.groups)
        record = head_record(problem, result, self.scored[start], start) | {"name": folder.name, "seconds": seconds}
        metrics = _metrics(record, result)
        artifact = (
            None
            if result.linear is None
            else HeadArtifact(
                name=folder.name,
                store=self.store,
                classifier=result.linear,
                seed=self.seed,
                metrics=metrics,
                head={key: record[key] for key in ("method", "base", "settings", "chosen", "groups", "scores")},
                composition=record["composition"],
            )
        )
        settings = {"name": folder.name, "method": method.name, "features": str(self.store.path), "seed": self.seed}
        _write(
            folder,
            {
                RECORD: json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n",
                "metrics.json": json.dumps(metrics, indent=2, allow_nan=False) + "\n",
                "config.yaml": yaml.safe_dump(settings | record["settings"], sort_keys=False, allow_unicode=True),
            },
            None if artifact is None else artifact.save,
        )
        return KeptHead(folder=folder, record=record)


def _metrics(record: HeadRecord, result: HeadResult) -> dict[str, Any]:
    """Return the result in the form of ``metrics.json`` of a run."""
    parts = {
        name: {key: record["scores"][name]["all"][key] for key in ("examples", "accuracy", "loss")}
        | {"groups": record["scores"][name]}
        for name in ("validation", "test")
    }
    head = result.linear
    return {
        **parts,
        "parameters": 0 if head is None else head.weight.size + head.bias.size,
        "epochs": 0,
        "train_seconds": record["seconds"],
    }


def _write(folder: Path, texts: Mapping[str, str], save: Callable[[Path], None] | None) -> None:
    """Write the folder of a run whole or not at all."""
    try:
        with folder_atomically(folder) as made:
            for name, text in texts.items():
                (made / name).write_text(text, encoding="utf-8")
            if save is not None:
                save(made / "artifact")
    except OSError as error:
        raise TrainingError(
            f"Run folder {folder} cannot be written: {error.strerror or error}. Make room or choose another --runs."
        ) from error

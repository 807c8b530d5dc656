"""Making of heads on one store, and writing of their folders."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from mntrain.atomic_files import folder_atomically
from mntrain.errors import TrainingError
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.fitted import FittedHead
from mntrain.heads.groups import ClassGroups
from mntrain.heads.head_artifact import HeadArtifact
from mntrain.heads.methods.registry import BASE, NamedMethod, find_method
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.record import RECORD, BaseScores, HeadRecord, head_record
from mntrain.heads.rounding import Rounding
from mntrain.heads.settings import HeadSections


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadMaker:
    """Makes heads on one store with one seed; every head that others start from is made once.

    Args:
        store: features.
        scale: their standardisation.
        settings: of methods.
        seed: of weights and draws.
        fit_words: fields of the recipe ``features``, for methods that train a family.
        made: results by the names of methods, with the seconds that each has taken.
        scored: scores of classifiers that heads are compared with, by the names of methods.
    """

    store: FeatureStore
    scale: FeatureScale
    settings: HeadSections
    seed: int
    fit_words: tuple[str, ...] = ()
    made: dict[str, tuple[HeadProblem, HeadResult, float]] = field(default_factory=dict)
    scored: dict[str, BaseScores] = field(default_factory=dict)

    def make(self, method: NamedMethod) -> tuple[HeadProblem, HeadResult, float]:
        """Make a head, and the one that it starts from; returns problem, result and seconds of this head alone."""
        if method.name not in self.made:
            start = None if method.start is None else self.make(find_method(method.start))[1]
            problem = replace(self.problem(method), start=start)
            started = time.perf_counter()
            result = method.method.run(problem)
            self.made[method.name] = problem, result, time.perf_counter() - started
        return self.made[method.name]

    def problem(self, method: NamedMethod) -> HeadProblem:
        """Return the problem of a method, without the head that it starts from."""
        return HeadProblem(
            store=self.store,
            settings=self.settings,
            seed=self.seed,
            scale=self.scale,
            groups=self.groups,
            method=method.name,
            fit_words=self.fit_words,
        )

    @property
    def groups(self) -> ClassGroups:
        """Classes of few, medium and many."""
        shared = self.settings.head
        return ClassGroups(counts=self.store.counts, many=shared.many, few=shared.few)

    def keep(self, method: NamedMethod, folder: Path) -> HeadRecord:
        """Make a head and write its folder; returns the content of ``head.json``."""
        problem, result, seconds = self.make(method)
        start = method.start or BASE
        if start not in self.scored:
            predictor = self.make(find_method(start))[1].predictor
            self.scored[start] = BaseScores.of(predictor, self.store, self.groups)
        record = head_record(problem, result, self.scored[start], start) | {"name": folder.name, "seconds": seconds}
        rounding = None if result.linear is None else Rounding.of(result.linear, self.store.validation.features).note()
        record["notes"] = [*result.notes, *([] if rounding is None else [rounding])]
        metrics = _metrics(record, result)
        save = self._saving(folder.name, result, record, metrics)
        record["artifact"] = save is not None
        settings = {"name": folder.name, "method": method.name, "features": str(self.store.path), "seed": self.seed}
        _write(
            folder,
            {
                RECORD: json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n",
                "metrics.json": json.dumps(metrics, indent=2, allow_nan=False) + "\n",
                "config.yaml": yaml.safe_dump(settings | record["settings"], sort_keys=False, allow_unicode=True),
            },
            save,
        )
        return record

    def _saving(
        self, name: str, result: HeadResult, record: HeadRecord, metrics: Mapping[str, Any]
    ) -> Callable[[Path], None] | None:
        """Return the writer of the artifact; None for a head that has none."""
        head = {key: record[key] for key in ("method", "base", "settings", "chosen", "groups", "scores")}
        if isinstance(result.predictor, FittedHead):
            return partial(result.predictor.save, name=name, head=head)
        if result.linear is None:
            return None
        return HeadArtifact(
            name=name,
            store=self.store,
            classifier=result.linear,
            seed=self.seed,
            metrics=metrics,
            head=head,
            composition=record["composition"],
        ).save


def _metrics(record: HeadRecord, result: HeadResult) -> dict[str, Any]:
    """Return the result in the form of ``metrics.json`` of a run."""
    parts = {
        name: {key: record["scores"][name]["all"][key] for key in ("examples", "accuracy", "loss")}
        | {"groups": record["scores"][name]}
        for name in ("validation", "test")
    }
    head = result.predictor
    parameters = head.weight.size + head.bias.size if isinstance(head, LinearClassifier) else 0
    return {
        **parts,
        "parameters": head.parameters if isinstance(head, FittedHead) else parameters,
        "epochs": head.metrics["epochs"] if isinstance(head, FittedHead) else 0,
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

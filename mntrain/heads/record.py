"""Record of a head, ``head.json``: everything that reports and comparisons show.

Shapes: C classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import ArtifactError
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.groups import ClassGroups, class_means, nearest_means
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.scores import HeadPredictor, SplitScores, split_scores
from mntrain.regular_files import read_text

RECORD = "head.json"
SCHEMA = 1
_EVALUATED = ("validation", "test")

HeadRecord = dict[str, Any]
"""Plain values of ``head.json``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseScores:
    """Scores of the classifier that heads are compared with, and the neighbors of every class.

    Args:
        validation: scores.
        test: scores.
        distance: of each class mean to the nearest mean of another base class, [C]; infinite where there is none.
        nearest: that class, int64 [C]; -1 where there is none.
    """

    validation: SplitScores
    test: SplitScores
    distance: NDArray[np.float64]
    nearest: NDArray[np.int64]

    @classmethod
    def of(cls, predictor: HeadPredictor, store: FeatureStore, groups: ClassGroups) -> BaseScores:
        """Score the classifier, and find the nearest base class of every class."""
        everyone, base = groups.members("all"), groups.members("base")
        distance, nearest = np.full(len(everyone), np.inf), np.full(len(everyone), -1)
        if len(base):
            places, distances = nearest_means(class_means(store.train, store.classes), everyone, base, 1)
            distance, nearest = distances[:, 0], np.where(np.isfinite(distances[:, 0]), places[:, 0], -1)
        return cls(
            validation=split_scores(predictor, store.validation, groups),
            test=split_scores(predictor, store.test, groups),
            distance=distance,
            nearest=nearest,
        )


def head_record(problem: HeadProblem, result: HeadResult, base: BaseScores, start: str) -> HeadRecord:
    """Score a head, and describe it.

    Args:
        problem: that it was made for.
        result: the head.
        base: scores of the classifier that it is compared with.
        start: name of the method that made this classifier.
    """
    store, groups = problem.store, problem.groups
    scores = {name: split_scores(result.predictor, store.part(name), groups) for name in _EVALUATED}
    return {
        "schema": SCHEMA,
        "method": problem.method,
        "base": start,
        "linear": result.linear is not None,
        "seed": problem.seed,
        "store": {
            "path": str(store.path),
            "sha256": store.sha256,
            "network": store.network.name,
            "features": store.features,
            "left_out": problem.scale.left_out,
            "classes": store.classes,
            "examples": {name: len(store.part(name)) for name in ("train", *_EVALUATED)},
        },
        "settings": asdict(problem.settings),
        "chosen": dict(result.chosen),
        "groups": groups.sizes(),
        "scores": {name: split.to_json() for name, split in scores.items()},
        "base_scores": {"validation": base.validation.to_json(), "test": base.test.to_json()},
        "classes": _classes(problem, scores["test"], base),
        "sweeps": [_swept(problem, sweep) for sweep in result.sweeps],
        "composition": None if result.composition is None else result.composition.to_json(store.label_names),
        "details": dict(result.details),
    }


def read_record(folder: Path) -> HeadRecord:
    """Read ``head.json`` of the folder of a head.

    Raises:
        ArtifactError: it cannot be read, or is of another version.
    """
    file = folder / RECORD
    try:
        record = json.loads(read_text(file))
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{file} cannot be read ({error}); run `mntrain head` again with --overwrite.") from error
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise ArtifactError(f"{file} is not of schema {SCHEMA}; run `mntrain head` again with --overwrite.")
    return record


def _classes(problem: HeadProblem, test: SplitScores, base: BaseScores) -> list[Mapping[str, Any]]:
    names, groups = problem.store.label_names, problem.groups.names()
    return [
        {
            "name": name,
            "examples": int(problem.groups.counts[place]),
            "group": groups[place],
            "recall": _finite(test.recall[place]),
            "base_recall": _finite(base.test.recall[place]),
            "distance": _finite(base.distance[place]),
            "nearest": names[base.nearest[place]] if base.nearest[place] >= 0 else None,
        }
        for place, name in enumerate(names)
    ]


def _swept(problem: HeadProblem, sweep: Any) -> Mapping[str, Any]:
    store, groups = problem.store, problem.groups
    scored = {
        name: [split_scores(sweep.predictor(value), store.part(name), groups).to_json() for value in sweep.values]
        for name in _EVALUATED
    }
    return {"name": sweep.name, "values": list(sweep.values), "chosen": sweep.chosen, **scored}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

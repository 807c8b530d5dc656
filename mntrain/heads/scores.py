"""Scores of a head on classes of few, medium, many and all training examples.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mntrain.data.examples import IndexArray
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.groups import GROUPS, ClassGroups

Choice = Literal["balanced", "accuracy"]
_ROWS = 4096
_TOP = 5


class HeadPredictor(Protocol):
    """Scores every class for rows of features."""

    def logits(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features [N, d] → scores [N, C], whose softmax is the probability of each class."""


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """Scores of one group of classes; all other classes stay possible answers.

    Args:
        classes: classes of the group that have examples.
        examples: examples of these classes.
        accuracy: share of right answers.
        balanced: mean over the classes of the share of right answers.
        top_5: share of examples whose class is among the five likeliest; None for five classes or fewer. Of equal
            scores that of the first class counts as the likelier, as it does in the accuracy.
        loss: mean cross-entropy in nats.
    """

    classes: int
    examples: int
    accuracy: float
    balanced: float
    top_5: float | None
    loss: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitScores:
    """Scores of one split.

    Args:
        groups: group → scores; a group without examples is left out.
        recall: share of right answers of each class, float64 [C]; NaN where a class has no example.
    """

    groups: Mapping[str, GroupScore]
    recall: NDArray[np.float64]

    def rank(self, choice: Choice) -> tuple[float, float]:
        """Rank settings by their score on all classes, the better the larger; the loss decides between equal ones."""
        score = self.groups["all"]
        return (score.balanced if choice == "balanced" else score.accuracy), -score.loss

    def to_json(self) -> dict[str, Any]:
        """Return plain values of the groups."""
        return {name: asdict(score) for name, score in self.groups.items()}


def split_scores(predictor: HeadPredictor, split: FeatureSplit, groups: ClassGroups) -> SplitScores:
    """Score a predictor on a split, a few thousand rows at a time."""
    parts = [
        _row_scores(predictor.logits(split.features[start : start + _ROWS]), split.labels[start : start + _ROWS])
        for start in range(0, len(split), _ROWS)
    ]
    return _grouped(_RowScores(*map(np.concatenate, zip(*parts, strict=True))), split.labels, groups)


def logit_scores(logits: NDArray[np.float32], labels: IndexArray, groups: ClassGroups) -> SplitScores:
    """Score logits [N, C] of rows with ``labels`` [N]."""
    return _grouped(_row_scores(logits, labels), labels, groups)


class _RowScores(NamedTuple):
    """Scores of every row, [N] each: right answers, classes among the five likeliest, cross-entropies."""

    hits: NDArray[Any]
    top: NDArray[Any]
    losses: NDArray[Any]


def _row_scores(logits: NDArray[np.float32], labels: IndexArray) -> _RowScores:
    of_label = np.take_along_axis(logits, labels[:, None], axis=1)
    # Of equal scores the first class comes first, as it does for argmax: votes of few neighbors are mostly equal.
    before = np.arange(logits.shape[1]) < labels[:, None]
    ahead = (logits > of_label) | ((logits == of_label) & before)
    return _RowScores(
        hits=logits.argmax(axis=1) == labels,
        top=ahead.sum(axis=1) < _TOP,
        losses=logsumexp(logits.astype(np.float64), axis=1) - of_label[:, 0],
    )


def _grouped(scores: _RowScores, labels: IndexArray, groups: ClassGroups) -> SplitScores:
    classes = len(groups.counts)
    counts = np.bincount(labels, minlength=classes)
    with np.errstate(invalid="ignore"):
        recall = np.bincount(labels, weights=scores.hits, minlength=classes) / counts
    of_groups = {}
    for group in GROUPS:
        members = groups.members(group)
        rows = np.isin(labels, members)
        if rows.any():
            of_groups[group] = GroupScore(
                classes=int((counts[members] > 0).sum()),
                examples=int(rows.sum()),
                accuracy=float(scores.hits[rows].mean()),
                balanced=float(np.nanmean(recall[members])),
                top_5=float(scores.top[rows].mean()) if classes > _TOP else None,
                loss=float(scores.losses[rows].mean()),
            )
    return SplitScores(groups=of_groups, recall=recall)

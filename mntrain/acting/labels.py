"""Classes of neighbors held against the classes that they should have, beside chance.

Shapes: S entries, N answers, n neighbors of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score

from mntrain.data.examples import IndexArray

_LEAST_KAPPA = 0.2
"""Cohen's kappa below which agreement counts as slight (Landis and Koch, 1977)."""


@dataclass(frozen=True, kw_only=True)
class _LabelShare:
    """Share of neighbors with the class they should have.

    Args:
        nearest: n.
        share: of the neighbors that have the class.
        chance: the same share, were both classes independent.
        kappa: Cohen's kappa: 0 by chance, 1 where all agree.
    """

    nearest: int
    share: float
    chance: float
    kappa: float

    @property
    def is_noise(self) -> bool:
        """True where the two classes hardly have to do with each other."""
        return self.kappa < _LEAST_KAPPA


@dataclass(frozen=True, kw_only=True)
class Consistency(_LabelShare):
    """Share of the training examples nearest to an entry that have the entry's likeliest class.

    Args:
        examples: training examples that were looked at.
    """

    examples: int

    def describe(self) -> str:
        """Put the consistency into words."""
        return (
            f"{self.share:.1%} of the training examples nearest to an entry have its class (by chance "
            f"{self.chance:.1%})"
        )


@dataclass(frozen=True, kw_only=True)
class AnswerAgreement(_LabelShare):
    """Share of an answer's largest neighbors, by attention, whose likeliest class is the answer.

    Args:
        answers: answers to test examples that were looked at.
    """

    answers: int

    def describe(self) -> str:
        """Put the agreement into words."""
        return (
            f"{self.share:.1%} of the {self.nearest} largest neighbors of an answer have its class (by chance "
            f"{self.chance:.1%})"
        )


def label_verdict(consistency: Consistency | None, agreement: AnswerAgreement | None) -> str | None:
    """Say where the classes of neighbors mean nothing, and what to change; None where they mean something."""
    noise = [part.describe() for part in (consistency, agreement) if part is not None and part.is_noise]
    if not noise:
        return None
    return (
        f"explanations mean little here: {', and '.join(noise)}, so neighbors are labelled almost at random; start the "
        "entries from data (--meta_neighborhoods.init data)"
    )


def entry_consistency(entries: IndexArray, found: IndexArray, *, examples: int) -> Consistency:
    """Compare classes of entries with those of their nearest examples.

    Args:
        entries: likeliest class of every entry, int64 [S].
        found: classes of the examples nearest to each, int64 [S, n].
        examples: examples that were looked at.
    """
    return Consistency(examples=examples, **_shares(entries, found))


def answer_agreement(answers: IndexArray, found: IndexArray) -> AnswerAgreement:
    """Compare answers with the classes of their largest neighbors.

    Args:
        answers: classes, int64 [N].
        found: likeliest classes of the neighbors of each, int64 [N, n].
    """
    return AnswerAgreement(answers=len(answers), **_shares(answers, found))


def _shares(wanted: IndexArray, found: IndexArray) -> dict[str, Any]:
    first, second = np.repeat(wanted, found.shape[1]), found.ravel()
    classes = int(max(first.max(), second.max())) + 1
    shares = [np.bincount(part, minlength=classes) / len(part) for part in (first, second)]
    several = len(np.unique(np.concatenate([first, second]))) > 1
    return {
        "nearest": found.shape[1],
        "share": float((first == second).mean()),
        "chance": float(shares[0] @ shares[1]),
        "kappa": float(cohen_kappa_score(first, second)) if several else 0.0,
    }

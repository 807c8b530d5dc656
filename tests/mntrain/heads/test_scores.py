"""Scores by groups of classes, against written-out definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from mntrain.feature_store.store import FeatureSplit, FeatureStore
from mntrain.heads.groups import ClassGroups
from mntrain.heads.methods.nearest import vote_logits
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.scores import logit_scores, split_scores


def test_scores_of_a_group_are_those_of_its_rows_among_all_classes(
    problem: HeadProblem, base: HeadResult, store: FeatureStore
) -> None:
    assert base.linear is not None
    test, logits = store.test, base.linear.logits(store.test.features).astype(np.float64)
    scores = split_scores(base.linear, test, problem.groups)
    ranks = np.argsort(-logits, axis=1)
    for group, members in {"few": [5, 6, 7], "medium": [2, 3, 4], "many": [0, 1], "all": range(8)}.items():
        rows = [row for row in range(len(test)) if test.labels[row] in members]
        right = [ranks[row, 0] == test.labels[row] for row in rows]
        of_group = scores.groups[group]
        assert (of_group.classes, of_group.examples) == (len(members), len(rows))
        assert of_group.accuracy == pytest.approx(np.mean(right))
        assert of_group.top_5 == pytest.approx(np.mean([test.labels[row] in ranks[row, :5] for row in rows]))
        losses = [-logits[row, test.labels[row]] + np.log(np.exp(logits[row]).sum()) for row in rows]
        assert of_group.loss == pytest.approx(np.mean(losses))


def test_classes_count_alike_in_the_balanced_accuracy_only() -> None:
    labels = np.array([0, 0, 0, 1])
    logits = np.array([[1, 0], [1, 0], [1, 0], [1, 0]], np.float32)
    scores = logit_scores(logits, labels, ClassGroups(counts=np.array([200, 5])))
    assert scores.groups["all"].accuracy == 0.75
    assert scores.groups["all"].balanced == 0.5
    assert scores.groups["all"].top_5 is None
    assert "medium" not in scores.groups
    assert scores.rank("balanced")[0] == 0.5
    assert scores.rank("accuracy")[0] == 0.75


def test_a_split_without_rows_of_a_class_leaves_the_class_out(problem: HeadProblem, base: HeadResult) -> None:
    test = problem.store.test
    kept = test.labels != 6
    part = FeatureSplit(features=test.features[kept], labels=test.labels[kept])
    scores = split_scores(base.predictor, part, problem.groups)
    assert scores.groups["few"].classes == 2
    assert np.isnan(scores.recall[6])
    assert scores.groups["few"].balanced == pytest.approx(np.mean(scores.recall[[5, 7]]))


def test_of_equal_scores_only_five_classes_are_among_the_five_likeliest() -> None:
    """One neighbor votes for one class, and all others are equal."""
    labels = np.arange(10)
    logits = vote_logits(np.full((10, 1), 7), 10)
    scores = logit_scores(logits, labels, ClassGroups(counts=np.full(10, 200)))
    assert scores.groups["all"].top_5 == 0.5
    assert scores.groups["all"].accuracy == 0.1
    five = logit_scores(np.eye(5, dtype=np.float32), np.arange(5), ClassGroups(counts=np.full(5, 200)))
    assert five.groups["all"].top_5 is None


@pytest.mark.parametrize("choice", ["balanced", "accuracy"])
def test_settings_are_ranked_by_the_score_that_is_chosen(
    problem: HeadProblem, base: HeadResult, choice: Literal["balanced", "accuracy"]
) -> None:
    """Half of the classes have a tenth of the validation rows, so that the two scores differ."""
    rows = np.flatnonzero((problem.store.validation.labels < 4) | (np.arange(80) % 10 == 0))
    validation = problem.store.validation
    part = FeatureSplit(features=validation.features[rows], labels=validation.labels[rows])
    uneven = replace(
        problem,
        store=replace(problem.store, validation=part),
        settings=replace(problem.settings, head=replace(problem.settings.head, choose=choice)),
    )
    right = base.predictor.logits(part.features).argmax(axis=1) == part.labels
    recalls = [right[part.labels == label].mean() for label in np.unique(part.labels)]
    expected = np.mean(recalls) if choice == "balanced" else right.mean()
    assert np.mean(recalls) != right.mean()
    assert uneven.rank(base.predictor)[0] == pytest.approx(expected)
    assert uneven.rank_logits(base.predictor.logits(part.features)) == uneven.rank(base.predictor)


def test_of_equal_scores_the_first_class_is_the_likelier() -> None:
    # Votes of one neighbor: a class with the vote, and seven that are equal.
    logits = np.zeros((8, 8), np.float32)
    logits[:, 7] = 1.0
    scores = logit_scores(logits, np.arange(8), ClassGroups(counts=np.full(8, 200)))
    assert scores.groups["all"].accuracy == 1 / 8
    assert scores.groups["all"].top_5 == 5 / 8

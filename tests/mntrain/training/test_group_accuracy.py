"""Accuracy by groups of classes, against definitions written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from mntrain.data.images import ImageSet
from mntrain.models.base import Prediction
from mntrain.training.evaluation import ACCURACY, EvaluationPlan, evaluate
from mntrain.training.group_accuracy import GroupAccuracy, accuracy_for, recorded_counts

CLASSES = 12
COUNTS = [500, 300, 150, 101, 100, 60, 40, 20, 19, 10, 5, 1]
GROUPS = {"many": range(4), "medium": range(4, 8), "few": range(8, 12)}


class _Table(nn.Module):
    """Answers with stored scores: the pixel of an image is its position."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, positions: torch.Tensor) -> Prediction:
        return Prediction(logits=self.logits[positions.flatten()], unadapted_logits=-self.logits[positions.flatten()])


class _Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("unused", torch.zeros(1))

    def forward(self, stored: torch.Tensor) -> torch.Tensor:
        return stored.long()


def test_groups_and_top_five_are_shares_of_the_examples_of_their_classes() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(90, CLASSES, generator=generator)
    labels = torch.randint(0, CLASSES, (90,), generator=generator)
    examples = ImageSet(images=np.arange(90, dtype=np.uint8).reshape(90, 1, 1, 1), labels=labels.numpy())
    plan = EvaluationPlan(metric=accuracy_for(COUNTS), batch_size=40)
    found = evaluate(_Table(logits), _Positions(), examples, plan).to_json()
    assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
    ranks = (logits > logits.gather(1, labels[:, None])).sum(1)
    assert found["top_5"] == pytest.approx(float((ranks < 5).float().mean()))
    for group, members in GROUPS.items():
        mine = torch.tensor([int(label) in members for label in labels])
        assert found[f"accuracy_{group}"] == pytest.approx(float((ranks[mine] == 0).float().mean()))
        assert found[f"top_5_{group}"] == pytest.approx(float((ranks[mine] < 5).float().mean()))
        before = (logits.argmin(1) == labels)[mine].float().mean()
        assert found[f"unadapted_accuracy_{group}"] == pytest.approx(float(before))


def test_a_group_without_examples_is_left_out() -> None:
    labels = np.zeros(6, dtype=np.int64)
    examples = ImageSet(images=np.zeros((6, 1, 1, 1), dtype=np.uint8), labels=labels)
    plan = EvaluationPlan(metric=accuracy_for(COUNTS), batch_size=4)
    found = evaluate(_Table(torch.eye(CLASSES)[:1]), _Positions(), examples, plan).to_json()
    assert found["accuracy_many"] == 1.0
    assert "accuracy_few" not in found
    assert all(value is None or not isinstance(value, float) or math.isfinite(value) for value in found.values())


@pytest.mark.parametrize("counts", [[], [300, 290], [110, 95], [90, 30], [105, 0, 103][:1]])
def test_balanced_training_and_single_groups_are_not_told(counts: list[int]) -> None:
    assert accuracy_for(counts) is ACCURACY


def test_imbalanced_training_is_told() -> None:
    assert isinstance(accuracy_for([300, 15]), GroupAccuracy)
    assert isinstance(accuracy_for([300, 0]), GroupAccuracy)


def test_counts_come_from_the_summary_in_an_artifact() -> None:
    data = {"splits": {"train": {"classes": {"b": 3, "a": 5}}}}
    assert recorded_counts(data, ["a", "b"]) == [5, 3]
    assert recorded_counts(data, ["a", "c"]) == recorded_counts(None, ["a"]) == recorded_counts({}, ["a"]) == []

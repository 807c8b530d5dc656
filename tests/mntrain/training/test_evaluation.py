"""Evaluation counts every image once and weighs it like every other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from mntrain.data.images import ImageSet
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.errors import ConfigError
from mntrain.models.base import Prediction
from mntrain.training.artifact_data import evaluate as evaluate_artifact
from mntrain.training.evaluation import ACCURACY, EvaluationPlan, evaluate

PIXELS = np.arange(7, dtype=np.uint8).reshape(7, 1, 1, 1)
LABELS = np.array([0, 1, 2, 0, 1, 2, 2], np.int64)


class Stub(nn.Module):
    """Answers image i with logits that depend on i: right for the first five, wrong for the last two."""

    def forward(self, images: Tensor) -> Prediction:
        assert not self.training
        index = (images.flatten() * 255).round().long()
        answer = torch.from_numpy(LABELS)[index] + (index >= 5)
        logits = one_hot(answer % 3, 3) * (1.0 + index[:, None])
        return Prediction(logits=logits, unadapted_logits=-logits)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_accuracy_and_loss_do_not_depend_on_the_batch_size(batch_size: int) -> None:
    model = Stub().train()
    found = evaluate(
        model,
        Preprocessing(PreprocessingConfig.identity(1)),
        ImageSet(images=PIXELS, labels=LABELS),
        EvaluationPlan(metric=ACCURACY, batch_size=batch_size),
    )
    logits = Stub().eval()(torch.from_numpy(PIXELS).float() / 255).logits
    assert found.examples == 7
    assert found.score == pytest.approx(5 / 7)
    assert found.unadapted_score == pytest.approx(0.0)
    assert (found.corrected, found.broken) == (5, 0)
    assert found.loss == pytest.approx(cross_entropy(logits, torch.from_numpy(LABELS)).item())
    assert model.training, "the mode is restored"


class Changing(Stub):
    """Answers as :class:`Stub` does before adaptation, and changes image 0 to wrong and images 4, 5 and 6 to right."""

    def forward(self, images: Tensor) -> Prediction:
        before = super().forward(images).logits
        index = (images.flatten() * 255).round().long()
        labels = torch.from_numpy(LABELS)[index]
        after = torch.where((index >= 4)[:, None], one_hot(labels, 3).float(), before)
        return Prediction(logits=torch.where((index == 0)[:, None], torch.eye(3)[[1]], after), unadapted_logits=before)


@pytest.mark.parametrize("batch_size", [2, 100])
def test_corrected_and_broken_answers_are_counted(batch_size: int) -> None:
    found = evaluate(
        Changing(),
        Preprocessing(PreprocessingConfig.identity(1)),
        ImageSet(images=PIXELS, labels=LABELS),
        EvaluationPlan(metric=ACCURACY, batch_size=batch_size),
    )
    assert (found.corrected, found.broken) == (2, 1)
    assert found.unadapted_score is not None
    assert found.score - found.unadapted_score == pytest.approx(1 / 7)


@pytest.mark.parametrize(("words", "message"), [({"split": "tests"}, "split is 'tests'"), ({"batch_size": 0}, "is 0")])
def test_evaluating_an_artifact_refuses_what_cannot_be(tmp_path: Path, words: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate_artifact(tmp_path, **words)

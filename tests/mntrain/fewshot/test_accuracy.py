"""Accuracy over episodes and its interval."""

import numpy as np
import pytest
import torch

from mntrain.errors import TrainingError
from mntrain.fewshot.accuracy import MethodAccuracy, episode_accuracies
from mntrain.fewshot.episodes import Episodes, EpisodeShape
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import nearest_logits

LABELS = np.repeat(np.arange(4), 5).astype(np.int64)
IMAGES = torch.from_numpy(LABELS)[:, None].float()
"""Each picture is the number of its class."""


class ByNumber:
    """Answers right where the class of the picture is even, and else the class after it in the episode."""

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        return images

    def classify(self, support: SupportSet, queries: torch.Tensor) -> torch.Tensor:
        logits = nearest_logits(support, queries)
        odd = queries[:, 0] % 2 == 1
        return torch.where(odd[:, None], logits.roll(1, dims=1), logits)


class Undefined(ByNumber):
    def classify(self, support: SupportSet, queries: torch.Tensor) -> torch.Tensor:
        return super().classify(support, queries) * float("nan")


def test_the_accuracy_of_each_episode_is_the_share_of_right_answers() -> None:
    episodes = Episodes(LABELS, "abcd", EpisodeShape(ways=3, shots=2, queries=3), 0)
    seen: list[int] = []
    found = episode_accuracies(ByNumber(), IMAGES, episodes, 20, lambda so_far: seen.append(len(so_far)))
    assert seen == list(range(1, 21))
    assert found == pytest.approx([(episodes.draw(number).classes % 2 == 0).mean() for number in range(20)])


def test_answers_that_are_no_numbers_end_the_work() -> None:
    episodes = Episodes(LABELS, "abcd", EpisodeShape(ways=3, shots=2, queries=3), 0)
    with pytest.raises(TrainingError, match="Answers to episode 0 are not finite"):
        episode_accuracies(Undefined(), IMAGES, episodes, 2)


def test_the_interval_is_that_of_a_mean() -> None:
    values = np.random.default_rng(0).random(50)
    result = MethodAccuracy(method="m", by_episode=tuple(values), seconds=1.0)
    assert result.mean == pytest.approx(values.mean())
    assert result.interval is not None
    assert result.interval == pytest.approx(2.009575 * values.std(ddof=1) / np.sqrt(50)), "t of 49 degrees of freedom"
    assert result.text() == f"{100 * result.mean:.2f} ± {100 * result.interval:.2f} %"


def test_one_episode_has_no_interval() -> None:
    result = MethodAccuracy(method="m", by_episode=(0.5,), seconds=1.0)
    assert result.text() == "50.00 %"
    assert result.to_json()["accuracy"] == {"mean": 0.5, "interval": None}

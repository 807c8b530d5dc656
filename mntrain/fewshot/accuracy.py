"""Accuracy of a method over episodes.

Shapes: E episodes, Q queries of an episode, W ways.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mntrain.errors import TrainingError
from mntrain.fewshot.episodes import Episodes
from mntrain.fewshot.episodic import support_of
from mntrain.fewshot.method import FewShotMethod

_NORMAL_95 = 1.959964
"""Standard deviations of a normal distribution to each side that hold 95 % of it."""


@dataclass(frozen=True, kw_only=True)
class MethodAccuracy:
    """Share of queries that a method answers right.

    Args:
        method: its name.
        by_episode: accuracy of each episode [E].
        seconds: time of all episodes, without the preparation of images.
        training_seconds: time of training on episodes; None without it.
    """

    method: str
    by_episode: tuple[float, ...]
    seconds: float
    training_seconds: float | None = None

    @property
    def mean(self) -> float:
        """Mean over episodes."""
        return statistics.fmean(self.by_episode)

    @property
    def interval(self) -> float | None:
        """Half of the 95 % interval of the mean, by the normal distribution; None for a single episode."""
        if len(self.by_episode) < 2:
            return None
        return _NORMAL_95 * statistics.stdev(self.by_episode) / math.sqrt(len(self.by_episode))

    def text(self) -> str:
        """Write mean and interval in percent."""
        spread = "" if self.interval is None else f" ± {100 * self.interval:.2f}"
        return f"{100 * self.mean:.2f}{spread} %"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "accuracy": {"mean": self.mean, "interval": self.interval},
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
        }


def episode_accuracies(
    method: FewShotMethod,
    prepared: Tensor,
    episodes: Episodes,
    count: int,
    on_episode: Callable[[list[float]], None] = lambda accuracies: None,
) -> list[float]:
    """Answer the queries of the first ``count`` episodes; returns the accuracy of each.

    Args:
        method: trained where it has to be.
        prepared: images as the method has prepared them [N, …].
        episodes: of these images.
        count: E.
        on_episode: called with the accuracies so far, after each episode.

    Raises:
        TrainingError: an answer is not finite.
    """
    accuracies: list[float] = []
    for number in range(count):
        episode = episodes.draw(number)
        logits = method.classify(support_of(episode, prepared), prepared[torch.from_numpy(episode.queries)])
        if not bool(torch.isfinite(logits).all()):
            raise TrainingError(
                f"Answers to episode {number} are not finite; lower the learning rate or step size of the method."
            )
        right = logits.argmax(dim=1) == torch.from_numpy(episode.query_labels)
        accuracies.append(right.double().mean().item())
        on_episode(accuracies)
    return accuracies

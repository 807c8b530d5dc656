"""Accuracy of a method over episodes.

Shapes: E episodes, Q queries of an episode, W ways.
"""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from mntrain.errors import TrainingError
from mntrain.fewshot.episodes import Episodes
from mntrain.fewshot.episodic import support_of
from mntrain.fewshot.method import FewShotMethod

_BELOW = 0.975
"""Share of a distribution below the upper end of what holds its middle 95 %."""


@dataclass(frozen=True, kw_only=True)
class MethodAccuracy:
    """Share of queries that a method answers right.

    Args:
        method: its name.
        by_episode: accuracy of each episode [E].
        seconds: time of all episodes, without the preparation of images.
        training_seconds: time of training on episodes; None without it.
        settings: those that acted, by their sections.
    """

    method: str
    by_episode: tuple[float, ...]
    seconds: float
    training_seconds: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean over episodes."""
        return statistics.fmean(self.by_episode)

    @property
    def interval(self) -> float | None:
        """Half of the 95 % interval of the mean, by Student's t; None for a single episode."""
        count = len(self.by_episode)
        if count < 2:
            return None
        return float(stdtrit(count - 1, _BELOW)) * statistics.stdev(self.by_episode) / math.sqrt(count)

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
            "trained": self.training_seconds is not None,
            "settings": dict(self.settings),
            "by_episode": list(self.by_episode),
        }


@dataclass(frozen=True, kw_only=True)
class MethodFailure:
    """A method that gave no accuracy.

    Args:
        method: its name.
        error: a sentence.
    """

    method: str
    error: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"error": self.error}


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

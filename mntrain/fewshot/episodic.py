"""Training on episodes of the classes that an artifact knows, so that episodes of other classes are answered well."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError, TrainingError
from mntrain.fewshot.episodes import Episode, Episodes
from mntrain.fewshot.method import EpisodicMethod, SupportSet


@dataclass(frozen=True, kw_only=True)
class EpisodicSettings:
    """Training by Adam, with statistics of normalisation that stay.

    Args:
        episodes: training episodes, of as many ways, shots and queries as those that are evaluated on.
        batch: episodes in a step.
        learning_rate: of Adam.
        gradient_clip: largest norm of a gradient.
    """

    episodes: int = 1000
    batch: int = 1
    learning_rate: float = 1e-3
    gradient_clip: float = 10.0

    def __post_init__(self) -> None:
        require_finite("episodic", self)
        for name, least in (("episodes", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"episodic.{name} is {getattr(self, name)}; it must be at least {least}.")
        for name in ("learning_rate", "gradient_clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"episodic.{name} is {getattr(self, name)}; it must be above 0.")


def support_of(episode: Episode, prepared: Tensor) -> SupportSet:
    """Take the support set of an episode from what a method has prepared [N, …]."""
    labels = torch.from_numpy(episode.support_labels)
    return SupportSet(prepared[torch.from_numpy(episode.support)], labels, len(episode.classes))


def train_on_episodes(
    method: EpisodicMethod,
    images: Tensor,
    episodes: Episodes,
    settings: EpisodicSettings,
    on_loss: Callable[[int, float], None] = lambda number, loss: None,
) -> None:
    """Train a method on episodes of images uint8 [N, C, H, W].

    Args:
        method: is changed.
        images: of the classes that are trained on.
        episodes: of these images.
        settings: of the training.
        on_loss: called with the number of episodes so far and the last loss, after each step.

    Raises:
        TrainingError: a loss is not finite.
    """
    parameters = list(method.trained_parameters())
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate)
    for first in range(0, settings.episodes, settings.batch):
        optimizer.zero_grad()
        numbers = range(first, min(first + settings.batch, settings.episodes))
        for number in numbers:
            episode = episodes.draw(number)
            queries = images[torch.from_numpy(episode.queries)]
            loss = method.episode_loss(support_of(episode, images), queries, torch.from_numpy(episode.query_labels))
            if not math.isfinite(loss.item()):
                raise TrainingError(
                    f"The loss of training episode {number} is not finite; lower --episodic.learning_rate or the step "
                    "size of the method."
                )
            torch.autograd.backward(loss / len(numbers))
        torch.nn.utils.clip_grad_norm_(parameters, settings.gradient_clip)
        optimizer.step()
        on_loss(numbers.stop, loss.item())

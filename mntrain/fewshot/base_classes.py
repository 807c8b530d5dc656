"""Classes that an artifact was trained on, for training on episodes of them."""

from dataclasses import dataclass

import torch

from mntrain.artifact import ImageArtifact
from mntrain.data.images import ImageData, ImageSet
from mntrain.fewshot.episodes import Episodes, EpisodeShape
from mntrain.fewshot.episodic import EpisodicSettings, train_on_episodes
from mntrain.fewshot.method import EpisodicMethod, FewShotMethod
from mntrain.fewshot.telling import Teller
from mntrain.run_progress import RunProgress
from mntrain.training.artifact_data import load_data


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseClasses:
    """Training images of an artifact.

    Args:
        images: of its training split.
        episodes: of these images.
    """

    images: ImageSet
    episodes: Episodes

    @classmethod
    def load(cls, artifact: ImageArtifact, shape: EpisodeShape, seed: int, data_path: str | None) -> "BaseClasses":
        """Load the training split of an artifact's own data.

        Raises:
            ConfigError: there are more ways than classes.
            DataError: the data is missing or another one, or a class has too few images.
        """
        data = load_data(artifact.config, data_path)
        assert isinstance(data, ImageData)
        episodes = Episodes(
            data.train.labels,
            data.label_names,
            shape,
            seed,
            source="the artifact's own training images",
            instead="take a method that is not trained on episodes",
        )
        return cls(images=data.train, episodes=episodes)

    def train(self, name: str, method: FewShotMethod, settings: EpisodicSettings, progress: RunProgress) -> None:
        """Train a method on episodes.

        Args:
            name: of the method.
            method: is changed.
            settings: of the training.
            progress: where it tells how far it is.

        Raises:
            TrainingError: a loss is not finite.
        """
        assert isinstance(method, EpisodicMethod)
        tell = Teller(progress, f"{name}: {{}} of {settings.episodes} training episodes, loss {{:.4f}}")
        train_on_episodes(method, torch.from_numpy(self.images.images), self.episodes, settings, tell)

"""Evaluate methods on episodes of new classes, from the options of a command to their accuracies."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.config import recipe_names
from mntrain.data.images import ImageData, ImageSet
from mntrain.errors import ArtifactError, ConfigError
from mntrain.fewshot.accuracy import MethodAccuracy, episode_accuracies
from mntrain.fewshot.episodes import Episodes, EpisodeShape
from mntrain.fewshot.episodic import train_on_episodes
from mntrain.fewshot.method import EpisodicMethod, FewShotMethod
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.novel_images import load_novel_images
from mntrain.fewshot.registry import METHODS, MethodContext, check_methods
from mntrain.fewshot.report import FewShotReport
from mntrain.fewshot.settings import MethodSettings
from mntrain.run_progress import RunProgress
from mntrain.training.artifact_data import load_data

_SECONDS_BETWEEN_LINES = 20.0


@dataclass(frozen=True, kw_only=True)
class FewShotOptions:
    """Artifact, data, methods and episodes of an evaluation.

    Args:
        artifact: folder of the artifact, runs/NAME/artifact.
        new_data: fields of ``DataConfig`` that say where images of new classes lie and how they are read.
        methods: their names, in the order of the table.
        shape: of every episode.
        episodes: their number.
        seed: of the episodes.
        train: train on episodes of the artifact's own classes where a method may be trained.
        data_path: where the data of the run lies now, if it has moved; read for training on episodes alone.
        settings: of all methods.
        quiet: print no progress.

    Raises:
        ConfigError: there is no such method, or no episode.
    """

    artifact: Path
    new_data: Mapping[str, Any]
    methods: tuple[str, ...]
    shape: EpisodeShape = field(default_factory=EpisodeShape)
    episodes: int = 600
    seed: int = 0
    train: bool = False
    data_path: str | None = None
    settings: MethodSettings = field(default_factory=MethodSettings)
    quiet: bool = True

    def __post_init__(self) -> None:
        check_methods(self.methods)
        if self.episodes < 1:
            raise ConfigError(f"--episodes is {self.episodes}; it must be at least 1 (600 is usual).")


def evaluate_few_shot(options: FewShotOptions) -> FewShotReport:
    """Evaluate every method on the same episodes.

    Raises:
        ArtifactError: the artifact is missing or damaged, or takes no images.
        ConfigError: a method does not fit the artifact, or there are more ways than classes.
        DataError: images are missing, or a class has too few.
        TrainingError: a loss or an answer is not finite.
    """
    artifact = _image_artifact(options.artifact)
    novel = load_novel_images(artifact, options.new_data)
    episodes = Episodes(novel.images.labels, novel.names, options.shape, options.seed)
    context = MethodContext(
        artifact=artifact,
        network=FeatureNetwork.of(artifact),
        ways=options.shape.ways,
        settings=options.settings,
        train=options.train,
    )
    # Built before any of them runs: a method that does not fit is told at once.
    methods = {name: METHODS[name].build(context) for name in options.methods}
    trained = [name for name in methods if METHODS[name].trains(context)]
    base = _base_images(artifact, options) if trained and options.settings.episodic.episodes else None
    with RunProgress(len(methods), quiet=options.quiet) as progress:
        images = torch.from_numpy(novel.images.images)
        session = _Session(options=options, images=images, episodes=episodes, progress=progress)
        results = tuple(
            session.run(name, method, base if name in trained else None) for name, method in methods.items()
        )
    return FewShotReport(
        artifact=str(options.artifact),
        data=novel,
        shape=options.shape,
        episodes=options.episodes,
        seed=options.seed,
        methods=results,
    )


def _image_artifact(path: Path) -> ImageArtifact:
    if not path.exists() and str(path) in recipe_names():
        raise ConfigError(
            f"{str(path)!r} is a recipe, and few-shot methods start from a trained network: run `mntrain fit {path}`, "
            "and give runs/NAME/artifact."
        )
    artifact = load_artifact(path)
    if not isinstance(artifact, ImageArtifact):
        raise ArtifactError(f"{path} holds a model of rows; few-shot learning takes an artifact of images.")
    return artifact


@dataclass(frozen=True, kw_only=True, eq=False)
class _BaseImages:
    """Images of the classes that the artifact was trained on, and their episodes."""

    images: ImageSet
    episodes: Episodes


def _base_images(artifact: ImageArtifact, options: FewShotOptions) -> _BaseImages:
    data = load_data(artifact.config, options.data_path)
    assert isinstance(data, ImageData)
    episodes = Episodes(data.train.labels, data.label_names, options.shape, options.seed)
    return _BaseImages(images=data.train, episodes=episodes)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Session:
    """Runs methods one after another.

    Args:
        options: of the evaluation.
        images: of new classes, uint8 [N, C, H, W].
        episodes: of these.
        progress: where long work tells how far it is.
    """

    options: FewShotOptions
    images: Tensor
    episodes: Episodes
    progress: RunProgress

    def run(self, name: str, method: FewShotMethod, base: _BaseImages | None) -> MethodAccuracy:
        """Train a method on ``base`` where it is given, and evaluate it."""
        training_seconds = None
        if base is not None:
            assert isinstance(method, EpisodicMethod)
            started = time.perf_counter()
            train_on_episodes(
                method,
                torch.from_numpy(base.images.images),
                base.episodes,
                self.options.settings.episodic,
                self._teller(name, "training episodes", "loss {:.4f}", self.options.settings.episodic.episodes),
            )
            training_seconds = time.perf_counter() - started
        prepared = method.prepare(self.images)
        started = time.perf_counter()
        tell = self._teller(name, "episodes", "accuracy {:.4f}", self.options.episodes)
        accuracies = episode_accuracies(
            method,
            prepared,
            self.episodes,
            self.options.episodes,
            lambda so_far: tell(len(so_far), sum(so_far) / len(so_far)),
        )
        result = MethodAccuracy(
            method=name,
            by_episode=tuple(accuracies),
            seconds=time.perf_counter() - started,
            training_seconds=training_seconds,
        )
        self.progress.finish_run(f"{name}: {result.text()} in {result.seconds:.0f} s")
        return result

    def _teller(self, name: str, noun: str, figure: str, total: int) -> "_Teller":
        return _Teller(self.progress, f"{name}: {{}} of {total} {noun}, {figure}")


class _Teller:
    """Prints a line about long work now and then.

    Args:
        progress: where to.
        line: with a place for the count, and one for a figure.
    """

    def __init__(self, progress: RunProgress, line: str) -> None:
        self._progress, self._line = progress, line
        self._last = time.monotonic()

    def __call__(self, count: int, figure: float) -> None:
        """Print the line, unless another was printed a moment ago."""
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._progress.say(self._line.format(count, figure))

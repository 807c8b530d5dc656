"""Evaluate methods on episodes of new classes, from the options of a command to their accuracies."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mntrain.errors import ConfigError, MnTrainError
from mntrain.fewshot.accuracy import MethodAccuracy, MethodFailure, episode_accuracies
from mntrain.fewshot.acting import acting_sections, check_acting
from mntrain.fewshot.base_classes import BaseClasses
from mntrain.fewshot.episodes import Episodes, EpisodeShape
from mntrain.fewshot.method import FewShotMethod
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.novel_images import load_novel_images
from mntrain.fewshot.registry import METHODS, MethodContext, check_methods
from mntrain.fewshot.report import FewShotReport
from mntrain.fewshot.settings import MethodSettings
from mntrain.fewshot.start import start_artifact
from mntrain.fewshot.telling import Teller
from mntrain.run_progress import RunProgress


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
        ConfigError: there is no such method, no episode, or an option or setting acts on none of the methods.
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
        check_acting(self.methods, self.settings, train=self.train, data_path=self.data_path)
        if self.episodes < 1:
            raise ConfigError(f"--episodes is {self.episodes}; it must be at least 1 (600 is usual).")


def evaluate_few_shot(options: FewShotOptions) -> FewShotReport:
    """Evaluate every method on the same episodes.

    A method that fails while it runs does not stop the others, and an interrupt keeps what is finished.

    Raises:
        ArtifactError: the artifact is missing or damaged, or takes no images.
        ConfigError: a method does not fit the artifact, or there are more ways than classes.
        DataError: images are missing, or a class has too few.
        KeyboardInterrupt: it came before a method was finished.
    """
    artifact = start_artifact(options.artifact)
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
    trained = [name for name in methods if METHODS[name].trains(options.train)]
    base = None
    if trained and options.settings.episodic.episodes:
        base = BaseClasses.load(artifact, options.shape, options.seed, options.data_path)
    with RunProgress(len(methods), quiet=options.quiet) as progress:
        images = torch.from_numpy(novel.images.images)
        session = _Session(options=options, images=images, episodes=episodes, progress=progress)
        results: list[MethodAccuracy | MethodFailure] = []
        interrupted = False
        try:
            for name, method in methods.items():
                results.append(session.try_run(name, method, base if name in trained else None))
        except KeyboardInterrupt:
            if not results:
                raise
            interrupted = True
    return FewShotReport(
        artifact=str(options.artifact),
        data=novel,
        shape=options.shape,
        episodes=options.episodes,
        seed=options.seed,
        methods=tuple(results),
        interrupted=interrupted,
    )


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

    def try_run(self, name: str, method: FewShotMethod, base: BaseClasses | None) -> MethodAccuracy | MethodFailure:
        """Run a method; what fails is told."""
        try:
            return self.run(name, method, base)
        except MnTrainError as error:
            reason = str(error)
        except MemoryError:
            reason = "There is no memory for it; choose fewer --ways, --shots or --queries."
        self.progress.finish_run(f"{name} failed: {reason}")
        return MethodFailure(method=name, error=reason)

    def run(self, name: str, method: FewShotMethod, base: BaseClasses | None) -> MethodAccuracy:
        """Train a method on ``base`` where it is given, and evaluate it."""
        training_seconds = None
        if base is not None:
            started = time.perf_counter()
            base.train(name, method, self.options.settings.episodic, self.progress)
            training_seconds = time.perf_counter() - started
        prepared = method.prepare(self.images)
        started = time.perf_counter()
        tell = Teller(self.progress, f"{name}: {{}} of {self.options.episodes} episodes, accuracy {{:.4f}}")
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
            settings={
                section: asdict(getattr(self.options.settings, section))
                for section in acting_sections(name, self.options.train)
            },
        )
        self.progress.finish_run(f"{name}: {result.text()} in {result.seconds:.0f} s")
        return result

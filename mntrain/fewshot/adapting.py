"""Adapt an artifact to new classes, from the options of a command to a saved artifact.

Shapes: K support images, W classes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from mntrain.errors import ConfigError, TrainingError
from mntrain.fewshot.acting import acting_sections, check_acting
from mntrain.fewshot.base_classes import BaseClasses
from mntrain.fewshot.episodes import EpisodeShape
from mntrain.fewshot.kept_artifact import KeptArtifact
from mntrain.fewshot.method import AdaptedClassifier, AdaptingMethod
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.novel_images import load_novel_images
from mntrain.fewshot.registry import METHODS, MethodContext, MethodEntry, check_methods
from mntrain.fewshot.settings import MethodSettings
from mntrain.fewshot.start import start_artifact
from mntrain.fewshot.support_images import SupportImages, choose_support
from mntrain.run_progress import RunProgress
from mntrain.training.evaluation import ACCURACY, EvaluationPlan, evaluate

_BATCH = 200
_OF_ARTIFACT = ("config.json", "model.safetensors")


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """Artifact, support set and method of an adaptation.

    Args:
        artifact: folder of the artifact to start from, runs/NAME/artifact.
        output: folder of the artifact to write, which must not be there.
        new_data: fields of ``DataConfig`` that say where the support images lie and how they are read.
        method: its name.
        shots: support images of each class; None takes all.
        queries: of each class, in training on episodes.
        seed: of the draw of support images and of training episodes.
        train: train on episodes of the artifact's own classes first, where that is a choice.
        data_path: where the data of the run lies now, if it has moved; read for training on episodes alone.
        settings: of the method.
        quiet: print no progress.

    Raises:
        ConfigError: there is no such method, it cannot be saved, or it has no use for an option or setting.
    """

    artifact: Path
    output: Path
    new_data: Mapping[str, Any]
    method: str = "protonet"
    shots: int | None = None
    queries: int = 15
    seed: int = 0
    train: bool = False
    data_path: str | None = None
    settings: MethodSettings = field(default_factory=MethodSettings)
    quiet: bool = True

    def __post_init__(self) -> None:
        check_methods((self.method,))
        if not self.entry.keeps:
            able = ", ".join(name for name, entry in METHODS.items() if entry.keeps)
            raise ConfigError(
                f"--method is {self.method!r}, which compares with support images and is no network with a linear or "
                f"cosine classifier; methods that can be saved are {able}."
            )
        check_acting((self.method,), self.settings, train=self.train, data_path=self.data_path)

    @property
    def entry(self) -> MethodEntry:
        """The method."""
        return METHODS[self.method]

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the settings that act."""
        return acting_sections(self.method, self.train)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptReport:
    """Result of an adaptation.

    Args:
        artifact: folder that was written.
        method: name of the method.
        support: images and classes.
        figures: score and loss on the support set itself.
        trained_classes: names of classes that the network was trained on before.
    """

    artifact: str
    method: str
    support: SupportImages
    figures: dict[str, Any]
    trained_classes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "artifact": self.artifact,
            "method": self.method,
            "classes": list(self.support.names),
            "images": len(self.support.images),
            "support": self.figures,
            "trained_classes": list(self.trained_classes),
        }


def adapt_artifact(options: AdaptOptions) -> AdaptReport:
    """Adapt an artifact to all support images at once, and save the result as an artifact of the vanilla family.

    Raises:
        ArtifactError: the artifact is missing or damaged, or takes no images; or the result cannot be written.
        ConfigError: the method does not fit the artifact, or there is something at ``output``.
        DataError: images are missing, or there are too few.
        TrainingError: a loss or an answer is not finite.
    """
    _check_place(options.output)
    artifact = start_artifact(options.artifact)
    novel = load_novel_images(artifact, options.new_data)
    support = choose_support(novel, options.shots, options.seed)
    context = MethodContext(
        artifact=artifact,
        network=FeatureNetwork.of(artifact),
        ways=len(support.names),
        settings=options.settings,
        train=options.train,
    )
    with RunProgress(1, quiet=options.quiet) as progress:
        classifier = _adapted(options, context, support, progress)
        kept = KeptArtifact(
            start=artifact,
            support=support,
            data=novel.config,
            classifier=classifier,
            method=options.method,
            settings={name: asdict(getattr(options.settings, name)) for name in options.sections},
            draw={"shots": options.shots, "seed": options.seed},
        )
        figures = _save(kept, options.output)
        progress.finish_run(f"{options.method}: {len(support.images)} images of {len(support.names)} classes")
    return AdaptReport(
        artifact=str(options.output),
        method=options.method,
        support=support,
        figures=figures,
        trained_classes=novel.trained_classes,
    )


def _check_place(output: Path) -> None:
    """Refuse a folder that is there, and one in an artifact, which holds no other.

    Raises:
        ConfigError: it is.
    """
    if output.exists():
        raise ConfigError(f"{output} is there already; choose another folder for the adapted artifact.")
    for above in output.resolve().parents:
        if all((above / name).is_file() for name in _OF_ARTIFACT):
            raise ConfigError(f"{output} lies in the artifact {above}, which holds no other; choose another folder.")


def _adapted(
    options: AdaptOptions, context: MethodContext, support: SupportImages, progress: RunProgress
) -> AdaptedClassifier:
    """Train the method on episodes where it is to be trained, and adapt to the support set."""
    method = options.entry.build(context)
    assert isinstance(method, AdaptingMethod)
    episodic = options.settings.episodic
    if options.entry.trains(options.train) and episodic.episodes:
        known = len(context.artifact.config.labels)
        if context.ways > known:
            raise ConfigError(
                f"{options.method} is trained on episodes of as many classes as the support set has, {context.ways}, "
                f"but {options.artifact} knows {known}; choose a method that is not, such as finetune."
            )
        shape = EpisodeShape(ways=context.ways, shots=support.fewest, queries=options.queries)
        base = BaseClasses.load(context.artifact, shape, options.seed, options.data_path)
        base.train(options.method, method, episodic, progress)
    return method.adapted(support.prepared(method.prepare(support.pixels())))


def _save(kept: KeptArtifact, path: Path) -> dict[str, Any]:
    """Save the network; returns its score and loss on the support set."""
    model = kept.model()
    if not all(bool(torch.isfinite(value).all()) for value in model.state_dict().values()):
        raise TrainingError(f"Weights of {kept.method} are not finite; lower the learning rate or step size.")
    plan = EvaluationPlan(metric=ACCURACY, batch_size=_BATCH)
    figures = evaluate(model, kept.start.preprocessing, kept.support.images, plan).to_json()
    kept.save(path, model, {"support": figures})
    return figures

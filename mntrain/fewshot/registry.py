"""Methods by their names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from mntrain.artifact import ImageArtifact
from mntrain.errors import ConfigError
from mntrain.fewshot.finetuning import FinetunedClassifier, FinetunedSimilarity
from mntrain.fewshot.maml import MetaLearner
from mntrain.fewshot.method import FewShotMethod
from mntrain.fewshot.metric import MetricMethod, PrototypeMethod, matching_logits, nearest_logits
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.relation import RelationMethod
from mntrain.fewshot.settings import MethodSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodContext:
    """What methods are built from.

    Args:
        artifact: with the trained network.
        network: its backbone, shared by methods that leave it as it is.
        ways: classes of an episode.
        settings: of all methods.
        train: whether methods that may be trained on episodes are.
    """

    artifact: ImageArtifact
    network: FeatureNetwork
    ways: int
    settings: MethodSettings
    train: bool = False

    def sample(self) -> Tensor:
        """One image uint8 [1, C, H, W]."""
        return torch.from_numpy(self.artifact.samples.images[:1])


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """A registered method.

    Args:
        build: makes it.
        training: never on episodes; optional with --train; always, since it is nothing without.
        keeps: whether its answers are those of a network with a classifier, which can be kept as an artifact.
        section: of the settings that are its own; empty where it has none.
    """

    build: Callable[[MethodContext], FewShotMethod]
    training: Literal["never", "optional", "always"] = "never"
    keeps: bool = False
    section: str = ""

    def trains(self, asked: bool) -> bool:
        """Tell if the method is to be trained on episodes, where ``asked`` says whether methods that may be are."""
        return self.training == "always" or (self.training == "optional" and asked)


def _trained_copy(context: MethodContext) -> FeatureNetwork:
    return context.network.copy() if context.train else context.network


def _matching(context: MethodContext) -> FewShotMethod:
    return MetricMethod(_trained_copy(context), matching_logits)


def _protonet(context: MethodContext) -> FewShotMethod:
    return PrototypeMethod(_trained_copy(context))


def _finetune(context: MethodContext) -> FewShotMethod:
    return FinetunedClassifier(context.network, context.settings.finetune)


def _static(context: MethodContext) -> FewShotMethod:
    return FinetunedSimilarity(FeatureNetwork.with_static_similarity(context.artifact), context.settings.finetune)


def _dynamic(context: MethodContext) -> FewShotMethod:
    mode = context.artifact.config.experiment.backbone.similarity.mode
    if mode != "dynamic":
        raise ConfigError(
            "The method dynamic-nsn takes a network whose similarity is predicted, but that of "
            f"{context.artifact.path} has backbone.similarity.mode {mode!r}; train one with "
            "--backbone.similarity.mode dynamic, or choose the method finetune."
        )
    return _finetune(context)


def _maml(context: MethodContext) -> FewShotMethod:
    return MetaLearner(context.network.copy(), context.ways, context.settings.maml)


def _meta_static(context: MethodContext) -> FewShotMethod:
    network = FeatureNetwork.with_static_similarity(context.artifact)
    return MetaLearner(network, context.ways, context.settings.meta_static, similarities_only=True)


def _relation(context: MethodContext) -> FewShotMethod:
    return RelationMethod(context.network.copy(), context.sample())


METHODS: Mapping[str, MethodEntry] = MappingProxyType(
    {
        "nearest": MethodEntry(build=lambda context: MetricMethod(context.network, nearest_logits)),
        "protonet": MethodEntry(build=_protonet, training="optional", keeps=True),
        "matching": MethodEntry(build=_matching, training="optional"),
        "finetune": MethodEntry(build=_finetune, keeps=True, section="finetune"),
        "static-nsn": MethodEntry(build=_static, keeps=True, section="finetune"),
        "dynamic-nsn": MethodEntry(build=_dynamic, keeps=True, section="finetune"),
        "maml": MethodEntry(build=_maml, training="always", keeps=True, section="maml"),
        "meta-static-nsn": MethodEntry(build=_meta_static, training="always", keeps=True, section="meta_static"),
        "relationnet": MethodEntry(build=_relation, training="always"),
    }
)


def check_methods(chosen: Sequence[str]) -> None:
    """Refuse names of no method, none at all, and one given twice.

    Raises:
        ConfigError: with the nearest name.
    """
    if not chosen:
        raise ConfigError(f"--method names no method; choose from {', '.join(METHODS)}.")
    for name in chosen:
        if name not in METHODS:
            near = get_close_matches(name, METHODS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigError(f"--method is {name!r}; choose from {', '.join(METHODS)}.{hint}")
    if len(set(chosen)) < len(chosen):
        raise ConfigError(f"--method names a method twice ({', '.join(chosen)}); leave one of them out.")

"""Methods that fit a new classifier to the support set, alone or with the similarities of the network.

Shapes: K support images, Q queries, W ways, d features; similarity M [k²] or [k², k²] of a layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.fewshot.method import AdaptedClassifier, SupportSet
from mntrain.fewshot.metric import class_means
from mntrain.fewshot.network import FeatureNetwork
from mntrain.layers.heads import HEAD_KINDS, CosineHead, Head, HeadKind, build_head

HeadStart = Literal["random", "means"]
_SCALE = 10.0
_AT_A_TIME = 200


@dataclass(frozen=True, kw_only=True)
class FinetuneSettings:
    """Fit to the support set by SGD (Neural Similarity Learning, appendix A).

    With dampening equal to the momentum, old gradients count and a new one does hardly more: both of 0.9 make a step
    as long as plain SGD does in the long run.

    Args:
        classifier: dot for a linear classifier with bias, or cosine.
        start: random draws its weights; means starts from the mean features of each class, which answers as the
            nearest mean does.
        epochs: passes over the support set; 0 keeps the start.
        batch: support images in a step.
        learning_rate: of the classifier.
        momentum: of SGD.
        dampening: of SGD.
        weight_decay: of the classifier; similarities have none, since it pulls them to 0 and not to the identity.
        similarity_rate: learning rate of similarities; a number of M acts on all filters of its layer, so that a high
            rate diverges.
        seed: of the random start and of the order of the images.
    """

    classifier: HeadKind = "dot"
    start: HeadStart = "random"
    epochs: int = 100
    batch: int = 4
    learning_rate: float = 0.01
    momentum: float = 0.9
    dampening: float = 0.9
    weight_decay: float = 0.001
    similarity_rate: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        require_finite("finetune", self)
        for name, choices in (("classifier", HEAD_KINDS), ("start", get_args(HeadStart))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"finetune.{name} is {getattr(self, name)!r}; it must be {' or '.join(choices)}.")
        limits = {"epochs": (0, 100_000), "batch": (1, 100_000), "momentum": (0, 1), "dampening": (0, 1)}
        limits |= {"learning_rate": (0, 100), "similarity_rate": (0, 100), "weight_decay": (0, 100)}
        limits["seed"] = (0, 2**31)
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"finetune.{name} is {getattr(self, name)}; it must be from {low} to {high}.")


class FinetunedClassifier:
    """A new classifier on frozen features: fine-tuning, and dynamic NSN on a network with a dynamic similarity.

    Args:
        network: frozen.
        settings: of the fit.
    """

    def __init__(self, network: FeatureNetwork, settings: FinetuneSettings) -> None:
        self._network, self._settings = network, settings

    def prepare(self, images: Tensor) -> Tensor:
        """Features [N, d]."""
        return self._network.stored_features(images)

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Fit a classifier to support features [K, d], and answer with it."""
        head = self.adapted(support).head
        with torch.no_grad():
            logits: Tensor = head(queries)
        return logits

    def adapted(self, support: SupportSet) -> AdaptedClassifier:
        """Fit a classifier to support features [K, d]."""
        head = _first_head(support, self._settings)
        fit = _Fit(settings=self._settings, groups=[_head_group(head, self._settings)])
        fit.run(lambda rows: head(support.images[rows]), support.labels)
        return AdaptedClassifier(network=self._network, head=head)


class FinetunedSimilarity:
    """Static NSN: similarities M and a new classifier are fitted, and the kernels stay (section 7.2 of the paper).

    Normalisation stays as in evaluation: statistics of a few images would forget those of all.

    Args:
        network: with static similarities; it is left as it is.
        settings: of the fit.
    """

    def __init__(self, network: FeatureNetwork, settings: FinetuneSettings) -> None:
        self._network, self._settings = network, settings

    def prepare(self, images: Tensor) -> Tensor:
        """Images themselves, since features depend on the support set."""
        return images

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Fit M and a classifier to support images uint8 [K, C, H, W], and answer with them."""
        return self.adapted(support).logits(queries)

    def adapted(self, support: SupportSet) -> AdaptedClassifier:
        """Fit M and a classifier to support images uint8 [K, C, H, W]."""
        settings, network = self._settings, self._network
        inputs = network.preprocessing(support.images)
        similarities = {name: value.detach().clone().requires_grad_() for name, value in network.similarities().items()}

        def features(batch: Tensor) -> Tensor:
            found: Tensor = functional_call(network.backbone, similarities, (batch,))
            return found

        with torch.no_grad():
            start = torch.cat([features(part) for part in torch.split(inputs, _AT_A_TIME)])
        head = _first_head(support._replace(images=start), settings)
        moved = {"params": list(similarities.values()), "lr": settings.similarity_rate, "weight_decay": 0.0}
        fit = _Fit(settings=settings, groups=[_head_group(head, settings), moved])
        fit.run(lambda rows: head(features(inputs[rows])), support.labels)
        moved_to = {name: value.detach() for name, value in similarities.items()}
        return AdaptedClassifier(network=network, head=head, changed=moved_to)


def _first_head(support: SupportSet, settings: FinetuneSettings) -> Head:
    """Build the classifier to start from, for support features [K, d]."""
    features = support.images.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        head = build_head(settings.classifier, features, support.ways, _SCALE)
    if settings.start == "means":
        means = class_means(support)
        # −‖z − p‖² = 2 z·p − ‖p‖² − ‖z‖², and the last term is the same for all classes.
        squares = means.square().sum(dim=1, keepdim=True)
        start = means if isinstance(head, CosineHead) else torch.cat([2 * means, -squares], dim=1)
        head.weight.data.copy_(start)
    return head


def _head_group(head: Head, settings: FinetuneSettings) -> dict[str, Any]:
    return {
        "params": list(head.parameters()),
        "lr": settings.learning_rate,
        "weight_decay": settings.weight_decay,
    }


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Passes of SGD over the support set.

    Args:
        settings: of the fit.
        groups: parameters, each group with its rate and decay.
    """

    settings: FinetuneSettings
    groups: list[dict[str, Any]]

    def run(self, answer: Callable[[Tensor], Tensor], labels: Tensor) -> None:
        """Lower the cross-entropy of ``answer``, which maps positions int64 [B] to logits [B, W]."""
        settings = self.settings
        optimizer = torch.optim.SGD(self.groups, momentum=settings.momentum, dampening=settings.dampening)
        generator = torch.Generator().manual_seed(settings.seed)
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(len(labels), generator=generator), settings.batch):
                optimizer.zero_grad()
                torch.autograd.backward(cross_entropy(answer(rows), labels[rows]))
                optimizer.step()

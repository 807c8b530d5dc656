"""Methods that learn where a few gradient steps start from: MAML, and its form for similarities alone.

Shapes: K support images, Q queries, W ways, d features; classifier φ [W, d + 1].
"""

import copy
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.fewshot.method import AdaptedClassifier, SupportSet
from mntrain.fewshot.network import FeatureNetwork
from mntrain.layers.heads import DotHead

_BACKBONE = "backbone."


@dataclass(frozen=True, kw_only=True)
class InnerSettings:
    """Gradient steps on the support set.

    Args:
        steps: on all that is adapted.
        step_size: of every step.
        classifier_steps: further steps on the classifier alone.
        second_order: differentiate through the steps while training; else their gradients count as constants.
    """

    section: ClassVar[str] = "maml"
    """Name of the settings, for messages."""

    steps: int = 5
    step_size: float = 0.01
    classifier_steps: int = 0
    second_order: bool = True

    def __post_init__(self) -> None:
        require_finite(self.section, self)
        for name in ("steps", "classifier_steps"):
            if not 0 <= getattr(self, name) <= 1000:
                raise ConfigError(f"{self.section}.{name} is {getattr(self, name)}; it must be from 0 to 1000.")
        if not 0 < self.step_size < 100:
            raise ConfigError(f"{self.section}.step_size is {self.step_size}; it must be above 0 and below 100.")


@dataclass(frozen=True, kw_only=True)
class SimilaritySteps(InnerSettings):
    """Gradient steps on similarities and classifier, by default those of the paper; arguments are the same."""

    section: ClassVar[str] = "meta_static"

    step_size: float = 0.2
    classifier_steps: int = 20


class MetaLearner:
    """Network whose parameters are those that a few steps on a support set start from (Finn et al., ICML 2017).

    Training differentiates the loss of the queries through the steps, in second order. What the steps change is what
    training changes: all of the network, or similarities and classifier alone.

    Args:
        network: a copy, which training changes.
        ways: W; the classifier starts at 0, alike for all classes.
        settings: of the steps.
        similarities_only: leave the kernels as they are (Neural Similarity Learning, eq. 7).
    """

    def __init__(
        self, network: FeatureNetwork, ways: int, settings: InnerSettings, *, similarities_only: bool = False
    ) -> None:
        self._network, self._settings = network, settings
        self._head = DotHead(network.features, ways)
        nn.init.zeros_(self._head.weight)
        self._classifier = nn.Sequential(OrderedDict(backbone=network.backbone, head=self._head))
        moved = network.similarities() if similarities_only else dict(network.backbone.named_parameters())
        self.start: dict[str, nn.Parameter] = {f"{_BACKBONE}{name}": value for name, value in moved.items()}
        self.start["head.weight"] = self._head.weight
        kept = {id(value) for value in self.start.values()}
        for value in self._classifier.parameters():
            value.requires_grad_(id(value) in kept)

    def prepare(self, images: Tensor) -> Tensor:
        """Images themselves, since features depend on the support set."""
        return images

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Adapt to support images uint8 [K, C, H, W], and answer."""
        return self.adapted(support).logits(queries)

    def adapted(self, support: SupportSet) -> AdaptedClassifier:
        """Take the steps on support images uint8 [K, C, H, W]."""
        values = {name: value.detach() for name, value in self.adapt(support, differentiable=False).items()}
        head = copy.deepcopy(self._head)
        head.load_state_dict({"weight": values.pop("head.weight")})
        changed = {name.removeprefix(_BACKBONE): value for name, value in values.items()}
        return AdaptedClassifier(network=self._network, head=head, changed=changed)

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """List what the steps start from."""
        return self.start.values()

    def episode_loss(self, support: SupportSet, queries: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy [] of the queries after the steps."""
        adapted = self.adapt(support, differentiable=self._settings.second_order)
        return cross_entropy(self._logits(adapted, self._network.preprocessing(queries)), labels)

    def adapt(self, support: SupportSet, *, differentiable: bool) -> dict[str, Tensor]:
        """Take the steps on support images uint8 [K, C, H, W]; returns the changed parameters by name.

        Args:
            support: labelled images.
            differentiable: keep the graph of the gradients.
        """
        settings = self._settings
        inputs = self._network.preprocessing(support.images)
        values: dict[str, Tensor] = dict(self.start)
        for _ in range(settings.steps):
            loss = cross_entropy(self._logits(values, inputs), support.labels)
            gradients = torch.autograd.grad(
                loss, list(values.values()), create_graph=differentiable, materialize_grads=True
            )
            values = {
                name: value - settings.step_size * gradient
                for (name, value), gradient in zip(values.items(), gradients, strict=True)
            }
        if settings.classifier_steps:
            features = self._features(values, inputs)
            weight = values["head.weight"]
            for _ in range(settings.classifier_steps):
                loss = cross_entropy(functional_call(self._head, {"weight": weight}, (features,)), support.labels)
                (gradient,) = torch.autograd.grad(loss, [weight], create_graph=differentiable, retain_graph=True)
                weight = weight - settings.step_size * gradient
            values["head.weight"] = weight
        return values

    def _logits(self, values: dict[str, Tensor], inputs: Tensor) -> Tensor:
        logits: Tensor = functional_call(self._classifier, values, (inputs,))
        return logits

    def _features(self, values: dict[str, Tensor], inputs: Tensor) -> Tensor:
        inner = {name.removeprefix(_BACKBONE): value for name, value in values.items() if name.startswith(_BACKBONE)}
        features: Tensor = functional_call(self._network.backbone, inner, (inputs,))
        return features

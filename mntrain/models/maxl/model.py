"""MAXL: a classifier with an auxiliary task whose labels a second network learns to generate.

Shapes: images [B, channels, H, W], features [B, d], logits [B, C], auxiliary logits and labels [B, A], A = C·ψ.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.functional import one_hot

from mntrain.backbones.config import feature_count
from mntrain.errors import ConfigError
from mntrain.layers.full_precision import full_precision
from mntrain.layers.heads import CosineHead, DotHead, Head, build_head
from mntrain.models.backbone_groups import backbone_groups, group_names
from mntrain.models.base import Batch, Classifier, ParameterGroup, Prediction, TrainingPhase
from mntrain.models.family import BuildBackbone
from mntrain.models.maxl.config import MaxlConfig
from mntrain.models.maxl.labels import focal_costs, focal_loss, generated_labels, negative_entropy
from mntrain.models.vanilla.model import Vanilla


class Trunk(nn.Module):
    """A backbone with one or two heads.

    Args:
        backbone: images → features [B, d].
        heads: classifiers on the features.
    """

    def __init__(self, backbone: nn.Module, *heads: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = nn.ModuleList(heads)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Images [B, channels, H, W] → logits of every head."""
        features: Tensor = self.backbone(images)
        with full_precision(features):
            features = features.to(next(self.heads.parameters()).dtype)
            return tuple(head(features) for head in self.heads)


class Maxl(Classifier):
    """A learner of a task and an auxiliary task, and a generator that learns the labels of the auxiliary task.

    An epoch has two phases. The learner is trained on both losses. Then the generator is trained by the main loss after
    a virtual step of the learner on the generated labels: a gradient of second order. Only the learner's backbone and
    main head predict.
    """

    def __init__(
        self, backbones: tuple[nn.Module, nn.Module], heads: tuple[Head, Head, Head], config: MaxlConfig
    ) -> None:
        """Args: backbones of learner and generator; heads of task, auxiliary task and generator; settings."""
        super().__init__()
        main, auxiliary, generator = heads
        self.learner = Trunk(backbones[0], main, auxiliary)
        self.generator = Trunk(backbones[1], generator)
        self.config = config

    @classmethod
    def from_config(cls, config: MaxlConfig, build_backbone: BuildBackbone, classes: int) -> "Maxl":
        """Build untrained networks for C ``classes`` on two new backbones."""
        # Backbone and main head first: they start as those of a vanilla network of the same seed.
        backbone = build_backbone()
        features, auxiliary = feature_count(backbone), classes * config.hierarchy
        main = build_head(config.head, features, classes, config.scale)
        generator = build_backbone()
        learned, generated = (build_head(config.head, features, auxiliary, config.scale) for _ in range(2))
        return cls((backbone, generator), (main, learned, generated), config)

    @property
    def backbone(self) -> nn.Module:
        """Backbone of the prediction: images → features."""
        return self.learner.backbone

    @property
    def head(self) -> Head:
        """Head of the prediction: features → logits."""
        head = self.learner.heads[0]
        assert isinstance(head, CosineHead | DotHead)
        return head

    def forward(self, inputs: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → logits [B, C]."""
        features: Tensor = self.backbone(inputs)
        with full_precision(features):
            return Prediction(logits=self.head(features.to(self.head.weight.dtype)))

    def loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Compute main and auxiliary loss [] of the learner on generated labels, and its prediction."""
        # What the generator's backbone drops is drawn aside, so that the learner's images are those of other families.
        with torch.no_grad(), _draws_to_repeat(batch.inputs):
            labels = self.labels(batch)
        logits, auxiliary = self.learner(batch.inputs)
        return self._learner_loss(logits, auxiliary, labels, batch.targets), Prediction(logits=logits)

    def generator_loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Compute the main loss [] after a virtual step of the learner on generated labels, plus their entropy term.

        With the step θ' = θ − η ∇_θ(main + λ Σ t·c(θ)) the gradient with respect to a label t is −η λ times the
        derivative of its cost c along ∇L(θ'): one forward-mode derivative. Differentiating through the step itself
        would need second derivatives of the whole network. The value is the loss itself; the gradient is exact.

        The virtual step is never taken, so it leaves the learner's running statistics alone. A backbone that drops
        features at random drops the same ones in all three passes: they are one function of the parameters.
        """
        labels, focus = self.labels(batch), self.config.focus
        classes = one_hot(batch.targets, self.head.weight.shape[0]).to(labels.dtype)
        parameters = {name: value.detach().requires_grad_() for name, value in self.learner.named_parameters()}
        with _draws_to_repeat(batch.inputs):
            logits, auxiliary = self._learner(parameters, batch.inputs)
        inner = focal_loss(logits, classes, focus) + self.config.auxiliary * focal_loss(
            auxiliary, labels.detach(), focus
        )
        step = self._step(inner, parameters)
        moved = {
            name: (value - self.config.virtual_step * step[name]).detach().requires_grad_()
            for name, value in parameters.items()
        }
        with _draws_to_repeat(batch.inputs):
            after, _ = self._learner(moved, batch.inputs)
        outer = focal_loss(after, classes, focus)
        rates = self._cost_rates(parameters, self._step(outer, moved), batch.inputs)
        share = self.config.virtual_step * self.config.auxiliary / len(labels)
        pull = -share * (labels * rates).sum()
        loss = outer.detach() + (pull - pull.detach()) + self.config.entropy * negative_entropy(labels)
        return loss, Prediction(logits=logits.detach())

    def labels(self, batch: Batch) -> Tensor:
        """Labels [B, A] that the generator gives the images of a batch."""
        (logits,) = self.generator(batch.inputs)
        return generated_labels(logits, batch.targets, self.config.hierarchy)

    def weigh_classes(self, weights: Tensor) -> None:
        """Refuse weights: labels are generated for a focal loss, which has a balance of its own."""
        raise ConfigError(
            "training.class_weights is 'balanced', but family 'maxl' lowers focal losses on labels that it generates "
            "for them, not a cross-entropy; leave it out, or choose family 'vanilla' or 'meta_neighborhoods'."
        )

    def training_phases(self) -> tuple[TrainingPhase, ...]:
        """Train the learner, then the generator."""
        return (
            TrainingPhase(objective=self.loss, groups=(*group_names(self.learner.backbone), "head")),
            TrainingPhase(
                objective=self.generator_loss,
                groups=(*group_names(self.generator.backbone, "generator"), "generator_head"),
                trains_prediction=False,
            ),
        )

    @property
    def compiled_part(self) -> nn.Module:
        """The backbone."""
        return self.backbone

    def plain(self) -> Vanilla:
        """Backbone and main head of the learner."""
        return Vanilla(self.backbone, self.head)

    def parameter_groups(self) -> list[ParameterGroup]:
        """Backbones with weight decay, heads without; the generator at a rate of its own."""
        learner, generator, rate = self.learner, self.generator, self.config.generator_rate
        heads = tuple(learner.heads.parameters()), tuple(generator.heads.parameters())
        return [
            *backbone_groups(learner.backbone),
            ParameterGroup(name="head", parameters=heads[0], decay=False),
            *backbone_groups(generator.backbone, "generator", rate),
            ParameterGroup(name="generator_head", parameters=heads[1], decay=False, rate=rate),
        ]

    @torch.no_grad()
    def _cost_rates(self, parameters: Mapping[str, Tensor], along: Mapping[str, Tensor], images: Tensor) -> Tensor:
        """Derivative of every auxiliary label's cost [B, A] where the learner's parameters move along a direction."""
        with forward_ad.dual_level():
            dual = {
                name: forward_ad.make_dual(value, along[name])  # type: ignore[no-untyped-call]
                for name, value in parameters.items()
            }
            costs = focal_costs(self._learner(dual, images)[1], self.config.focus)
            rates: Tensor = forward_ad.unpack_dual(costs).tangent  # type: ignore[no-untyped-call]
        return rates

    @staticmethod
    def _step(loss: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gradient of a loss, 0 for parameters without influence on it."""
        gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True, allow_unused=True)
        return dict(zip(parameters, gradients, strict=True))

    def _learner(self, parameters: Mapping[str, Tensor], images: Tensor) -> tuple[Tensor, Tensor]:
        buffers = {name: buffer.clone() for name, buffer in self.learner.named_buffers()}
        logits, auxiliary = functional_call(self.learner, (dict(parameters), buffers), (images,))
        return logits, auxiliary

    def _learner_loss(self, logits: Tensor, auxiliary: Tensor, labels: Tensor, classes: Tensor) -> Tensor:
        focus = self.config.focus
        main = focal_loss(logits, one_hot(classes, logits.shape[-1]).to(logits.dtype), focus)
        return main + self.config.auxiliary * focal_loss(auxiliary, labels, focus)


def _draws_to_repeat(images: Tensor) -> AbstractContextManager[None]:
    """Context that restores the state of the random number generators, so that draws inside it can be repeated."""
    return torch.random.fork_rng([images.device] if images.device.type == "cuda" else [])

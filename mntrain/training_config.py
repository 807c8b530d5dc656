"""Configuration of the optimisation."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from mntrain.config_fields import require_finite
from mntrain.data.batch_sizes import LAST_BATCHES, LastBatch
from mntrain.data.order import SAMPLINGS, Sampling
from mntrain.errors import ConfigError

Precision = Literal["32-true", "bf16-mixed"]
OptimizerName = Literal["adamw", "sgd"]
ClassWeights = Literal["none", "balanced"]
CLASS_WEIGHTS = ("none", "balanced")
Schedule = Literal["drop", "cosine"]
Freeze = Literal["none", "network", "backbone"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimisation (defaults: the paper's appendix A.2; decay and clipping as its authors' code).

    Args:
        epochs: passes over the training images.
        batch_size: examples in a global batch.
        last_batch: what becomes of examples that fill no batch. train makes them a batch of their own, or spreads fewer
            than 8 over the others; drop leaves them out of the epoch.
        class_weights: of the loss of classifiers. balanced weighs an example of class c by N/(C·n_c), so that every
            class counts alike; none weighs all examples alike.
        sampling: which examples an epoch takes. instance takes every example once; class_balanced takes as many of
            every class; square_root takes classes in proportion to the square root of their size.
        optimizer: adamw or sgd.
        momentum: of sgd.
        learning_rate: until the first drop.
        weight_decay: multiplied by the learning rate at each step; acts on the backbone only.
        head_decay: weight decay of the head, which weight_decay leaves alone; regularises a classifier on features that
            stay as they are.
        drop_at: share of the epochs after which the learning rate drops, once.
        drop_every: epochs after which the learning rate drops again and again, instead of drop_at; 0 is off.
        drop_factor: what the learning rate is multiplied by then.
        milestones: shares of the epochs after each of which the learning rate drops, instead of drop_at, such as [0.5,
            0.75].
        schedule: drop lowers the learning rate in steps; cosine lowers it along half a cosine to 0, without steps.
        patience: epochs without a better validation result after which training stops; 0 never stops early.
        keep_every: keep the weights after every so many epochs, after the last, and before the first; 0 keeps none.
        accumulate: parts that a batch is split into, whose gradients are added up.
        gradient_clip: every gradient element is clipped to ± this; 0 switches it off.
        evaluation_batch_size: images in a batch when evaluating.
        accelerator: cpu, cuda, mps or auto (as Lightning Fabric names them).
        devices: processes/devices for data-parallel training.
        precision: 32-true or bf16-mixed (as Lightning Fabric names them).
        compile: whether the network is compiled by torch.compile.
        start: folder of an artifact whose weights the model starts from where names and shapes fit; None starts
            untrained.
        freeze: part that keeps the weights, and the statistics of normalisation, that it starts from. network leaves
            similarities, iFiLM, head and dictionary to learn; backbone leaves head and dictionary.
    """

    epochs: int = 12
    batch_size: int = 128
    last_batch: LastBatch = "train"
    class_weights: ClassWeights = "none"
    sampling: Sampling = "instance"
    optimizer: OptimizerName = "adamw"
    momentum: float = 0.9
    learning_rate: float = 1e-3
    weight_decay: float = 0.075
    head_decay: float = 0.0
    drop_at: float = 0.75
    drop_every: int = 0
    drop_factor: float = 0.1
    milestones: tuple[float, ...] = ()
    schedule: Schedule = "drop"
    patience: int = 0
    keep_every: int = 0
    accumulate: int = 1
    gradient_clip: float = 10.0
    evaluation_batch_size: int = 500
    accelerator: str = "auto"
    devices: int = 1
    precision: Precision = "32-true"
    compile: bool = False
    start: str | None = None
    freeze: Freeze = "none"

    def __post_init__(self) -> None:
        def refuse(field: str, limit: str) -> ConfigError:
            return ConfigError(f"training.{field} is {getattr(self, field)!r}; it must be {limit}.")

        require_finite("training", self)
        if self.epochs < 1:
            raise refuse("epochs", "at least 1")
        if self.batch_size < 2:
            raise refuse("batch_size", "at least 2, since batch normalisation needs two images (128 is usual)")
        if self.last_batch not in LAST_BATCHES:
            raise refuse("last_batch", f"{' or '.join(LAST_BATCHES)}")
        if self.class_weights not in CLASS_WEIGHTS:
            raise refuse("class_weights", f"{' or '.join(CLASS_WEIGHTS)}")
        if self.sampling not in SAMPLINGS:
            raise refuse("sampling", f"{' or '.join(SAMPLINGS)}")
        if self.sampling != "instance" and self.class_weights != "none":
            raise ConfigError(
                f"training.sampling is {self.sampling!r} and training.class_weights {self.class_weights!r}, which both "
                "lift small classes, so that they would count twice; leave one of them out."
            )
        if self.evaluation_batch_size < 1:
            raise refuse("evaluation_batch_size", "at least 1")
        if not 0 < self.learning_rate < 10:
            raise refuse("learning_rate", "above 0 and below 10 (0.001 is usual)")
        if not 0 <= self.weight_decay < 100:
            raise refuse("weight_decay", "0 or above (0.075 is usual)")
        if not 0 <= self.head_decay < 100:
            raise refuse("head_decay", "0 (off) or above (0.01 to 1 for a classifier on fixed features)")
        if self.optimizer not in ("adamw", "sgd"):
            raise refuse("optimizer", "adamw or sgd")
        if not 0 <= self.momentum < 1:
            raise refuse("momentum", "at least 0 and below 1 (0.9 is usual)")
        for field in ("drop_every", "patience", "keep_every"):
            if getattr(self, field) < 0:
                raise refuse(field, "0 (off) or a number of epochs")
        if self.accumulate < 1 or self.accumulate * 2 * self.devices > self.batch_size:
            raise refuse(
                "accumulate", f"from 1 to {self.batch_size // (2 * max(1, self.devices))}, two images in a part"
            )
        if not 0 < self.drop_at <= 1:
            raise refuse("drop_at", "above 0 and at most 1, a share of the epochs (0.75 is usual; 1 never drops)")
        if not 0 < self.drop_factor <= 1:
            raise refuse("drop_factor", "above 0 and at most 1")
        rising = all(before < after for before, after in pairwise((0.0, *self.milestones, 1.0)))
        if self.milestones and not rising:
            raise refuse("milestones", "shares of the epochs that rise, each above 0 and below 1")
        chosen = {"schedule": self.schedule == "cosine", "milestones": self.milestones, "drop_every": self.drop_every}
        first, *others = [*(name for name, value in chosen.items() if value), "drop_at"]
        if others[1:]:
            raise ConfigError(
                f"training.{first} is {getattr(self, first)!r} and training.{others[0]} {getattr(self, others[0])!r}; "
                "a learning rate has one schedule, so leave one of them out."
            )
        if self.freeze != "none" and self.start is None:
            raise refuse("freeze", "none where training.start is null, since a part that never learns must be trained")
        if not self.gradient_clip >= 0:
            raise refuse("gradient_clip", "0 (off) or above")
        if not 1 <= self.devices <= 1024:
            raise refuse("devices", "from 1 to 1024")
        if self.start is not None and not self.start.strip():
            raise refuse("start", "the folder of an artifact, such as runs/NAME/artifact, or null")
        if self.batch_size < 2 * self.devices:
            raise refuse("batch_size", f"at least 2 for each of the {self.devices} devices")
        if self.batch_size % self.devices:
            raise refuse("batch_size", f"a multiple of the {self.devices} devices, which share every batch evenly")

    @property
    def drop_epoch(self) -> int:
        """First epoch (from 0) that runs at the lower rate; equal to ``epochs`` or more if none does."""
        return max(1, round(self.epochs * self.drop_at))

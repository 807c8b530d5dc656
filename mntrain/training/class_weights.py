"""Weights of classes in the loss, where some have far fewer examples than others.

Shapes: N examples, C classes.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError
from mntrain.models.base import Classifier, Model
from mntrain.training_config import TrainingConfig


def balanced_weights(labels: IndexArray, classes: int) -> NDArray[np.float32]:
    """Compute weights N / (C n_c), float32 [C], whose mean over the examples is 1.

    Args:
        labels: int64 [N].
        classes: C; those without an example do not count, and weigh 0.
    """
    counts = np.bincount(labels, minlength=classes)
    present = counts > 0
    weights = np.zeros(classes, dtype=np.float32)
    weights[present] = len(labels) / (present.sum() * counts[present])
    return weights


def check_sampling(model: Model, training: TrainingConfig) -> None:
    """Check that there are classes to sample by.

    Raises:
        ConfigError: ``training.sampling`` asks for classes, and the targets are values.
    """
    if training.sampling != "instance" and not isinstance(model, Classifier):
        raise ConfigError(
            f"training.sampling is {training.sampling!r}, but the targets are values, which have no classes; leave it "
            "out, or set data.target to class."
        )


def weigh_classes(model: Model, training: TrainingConfig, targets: NDArray[Any]) -> None:
    """Give a model the weights that ``training.class_weights`` asks for.

    Args:
        model: untrained.
        training: settings of the optimisation.
        targets: of the training examples [N].

    Raises:
        ConfigError: weights are asked for and the targets are values, or the family has a loss that they do not act on.
    """
    if training.class_weights == "none":
        return
    if not isinstance(model, Classifier):
        raise ConfigError(
            "training.class_weights is 'balanced', but the targets are values, which have no classes; leave it out, or "
            "set data.target to class."
        )
    model.weigh_classes(torch.from_numpy(balanced_weights(targets, int(targets.max()) + 1)))

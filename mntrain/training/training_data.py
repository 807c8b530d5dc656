"""What a run is about, apart from the model: examples, how they become inputs, how answers are judged."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mntrain.data.augmentation import Augmentation
from mntrain.data.examples import Examples
from mntrain.data.images import ImageData
from mntrain.data.standardization import Standardization
from mntrain.data.tables import TableData
from mntrain.distributed import process_rank
from mntrain.training.metric import ACCURACY, MSE, Metric


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """A run's data and its measure.

    Args:
        train: examples to learn from.
        validation: examples that choose the best epoch.
        test: examples that the result is reported on.
        augment: what is done to a batch of training inputs before ``preprocessing``.
        preprocessing: stored inputs → what the model takes; on the device of the run.
        metric: how answers are judged.
    """

    train: Examples
    validation: Examples
    test: Examples
    augment: Callable[[Tensor], Tensor]
    preprocessing: nn.Module
    metric: Metric

    def training_inputs(self, stored: Tensor) -> Tensor:
        """A global batch as it was stored → this process's rows, augmented and preprocessed.

        Images come in the memory layout that convolutions like best.
        """
        inputs: Tensor = self.preprocessing(process_rank().rows(self.augment(stored)))
        return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs


def image_training_data(data: ImageData, augmentation: Augmentation, preprocessing: nn.Module) -> TrainingData:
    """Classification of images; augmentation and preprocessing are on the device of the run."""

    def augment(pixels: Tensor) -> Tensor:
        augmented: Tensor = augmentation(pixels.float().div_(255.0))
        return augmented

    return TrainingData(
        train=data.train,
        validation=data.validation,
        test=data.test,
        augment=augment,
        preprocessing=preprocessing,
        metric=ACCURACY,
    )


def table_training_data(data: TableData, standardization: Standardization) -> TrainingData:
    """Regression on standardised targets, or classification, of rows; standardisation is on the device of the run."""
    train, validation, test = (
        standardization.config.targets(part) for part in (data.train, data.validation, data.test)
    )
    return TrainingData(
        train=train,
        validation=validation,
        test=test,
        augment=lambda rows: rows,
        preprocessing=standardization,
        metric=MSE if data.label_names is None else ACCURACY,
    )

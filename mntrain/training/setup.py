"""Setup of a run, from its data to its artifact: the one place of a run that knows images from rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mntrain.artifact import current_versions
from mntrain.artifact_config import ArtifactConfig, ImageArtifactConfig, InputSpec, TableArtifactConfig
from mntrain.config import ExperimentConfig
from mntrain.data.augmentation import Augmentation, AugmentationConfig
from mntrain.data.examples import Examples, IndexArray
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.data.split_record import SplitRecord
from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.data.tables import TableData, TableSet
from mntrain.distributed import process_rank
from mntrain.errors import ConfigError
from mntrain.models.base import Model
from mntrain.models.build import build_model, build_regressor
from mntrain.networks.sample_images import NETWORK_IMAGES, image_file
from mntrain.training.evaluation import MSE, Evaluation, Metric
from mntrain.training.group_accuracy import accuracy_for
from mntrain.training.regression import regression_figures

_SAMPLES = 256


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Examples of a run, their way to inputs of the model, and their metric.

    Args:
        train: examples to learn from.
        validation: examples that choose the best epoch.
        test: examples that the result is reported on.
        augment: changes a batch of training inputs before ``preprocessing``.
        preprocessing: stored inputs → inputs of the model; on the device of the run.
        metric: score and loss of an answer.
    """

    train: Examples
    validation: Examples
    test: Examples
    augment: Callable[[Tensor], Tensor]
    preprocessing: nn.Module
    metric: Metric

    def training_inputs(self, stored: Tensor) -> Tensor:
        """Global batch as it was stored → rows of this process, augmented and preprocessed.

        Images come in the memory layout that convolutions like best.
        """
        inputs: Tensor = self.preprocessing(process_rank().rows(self.augment(stored)))
        return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs


class RunSetup(ABC):
    """A configuration and the data that a model is trained on."""

    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config

    @property
    @abstractmethod
    def data(self) -> ImageData | TableData:
        """The three splits, as they are stored."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of the model, after preprocessing."""

    @abstractmethod
    def build_model(self) -> Model:
        """Build an untrained model that fits the data.

        Raises:
            ConfigError: family, backbone or settings do not fit the data.
        """

    @abstractmethod
    def training_data(self, device: torch.device) -> TrainingData:
        """Prepare the data of the loop, with preprocessing on ``device``."""

    @abstractmethod
    def test_figures(self, evaluation: Evaluation) -> dict[str, Any]:
        """Figures to report of an evaluation on the test split."""

    @abstractmethod
    def artifact(self, metrics: dict[str, Any]) -> ArtifactConfig:
        """Describe the artifact, with the run's ``metrics``."""

    @abstractmethod
    def samples(self) -> ImageSet | TableSet:
        """Select held-out examples spread over the whole test split."""

    def artifact_files(self) -> dict[str, bytes]:
        """Make further files of the artifact by name; none for most data."""
        return {}


class ImageSetup(RunSetup):
    """Classification of images."""

    def __init__(self, config: ExperimentConfig, data: ImageData) -> None:
        super().__init__(config)
        self._data = data
        self._augmentation = Augmentation(config.augmentation, data.height, data.width)
        self._pixels = (
            PreprocessingConfig.from_images(data.train.images)
            if config.normalization == "per_channel"
            else PreprocessingConfig.identity(data.channels)
        )

    @property
    def data(self) -> ImageData:
        """The three splits."""
        return self._data

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return (self._data.channels, self._data.height, self._data.width)

    def build_model(self) -> Model:
        """Build a classifier on the configured backbone."""
        return build_model(self.config, self.input_shape, self._data.num_classes)

    def training_data(self, device: torch.device) -> TrainingData:
        """Images, augmented and normalised on ``device``, and accuracy."""
        augmentation = self._augmentation.to(device)

        def augment(pixels: Tensor) -> Tensor:
            augmented: Tensor = augmentation(pixels.float().div_(255.0))
            return augmented

        return TrainingData(
            train=self._data.train,
            validation=self._data.validation,
            test=self._data.test,
            augment=augment,
            preprocessing=Preprocessing(self._pixels).to(device),
            metric=_accuracy(self._data.train.labels, self._data.num_classes),
        )

    def test_figures(self, evaluation: Evaluation) -> dict[str, Any]:
        """Accuracy and loss."""
        return evaluation.to_json()

    def artifact(self, metrics: dict[str, Any]) -> ArtifactConfig:
        """Describe size of the images, class names and normalisation."""
        data = self.config.data
        return ImageArtifactConfig(
            experiment=self.config,
            input=InputSpec(
                channels=self._data.channels,
                height=self._data.height,
                width=self._data.width,
                fit=None if data.image_size is None else data.image_fit,
            ),
            labels=self._data.label_names,
            preprocessing=self._pixels,
            split=_split_summary(self._data.split),
            metrics=metrics,
            versions=current_versions(),
        )

    def samples(self) -> ImageSet:
        """Select test images."""
        return self._data.test.select(spread(len(self._data.test)))


class TableSetup(RunSetup):
    """Regression, or classification of rows.

    Raises:
        ConfigError: an augmentation is configured, which rows do not have.
    """

    def __init__(self, config: ExperimentConfig, data: TableData) -> None:
        super().__init__(config)
        if config.augmentation != AugmentationConfig():
            raise ConfigError("augmentation changes images, but the data holds rows; leave the section out.")
        self._data = data
        self._scale = StandardizationConfig.from_data(data, scaled=config.normalization == "per_channel")

    @property
    def data(self) -> TableData:
        """The three splits, as they are stored."""
        return self._data

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Number of columns after encoding."""
        return (self._scale.width,)

    def build_model(self) -> Model:
        """Build a regressor, or a classifier on the configured backbone where the targets are classes."""
        if self._data.label_names is not None:
            return build_model(self.config, self.input_shape, len(self._data.label_names))
        targets = self._scale.targets(self._data.train).targets
        columns = targets.reshape(len(targets), -1).T
        ranges = [(float(values.min()), float(values.max())) for values in columns]
        return build_regressor(self.config, self._scale.width, ranges)

    def training_data(self, device: torch.device) -> TrainingData:
        """Rows with standardised targets and the squared error, or with classes and accuracy."""
        train, validation, test = (
            self._scale.targets(part) for part in (self._data.train, self._data.validation, self._data.test)
        )
        return TrainingData(
            train=train,
            validation=validation,
            test=test,
            augment=lambda rows: rows,
            preprocessing=Standardization(self._scale).to(device),
            metric=MSE
            if self._data.label_names is None
            else _accuracy(train.targets, len(self._data.label_names), self._data.training_views),
        )

    def test_figures(self, evaluation: Evaluation) -> dict[str, Any]:
        """Squared error and its size in the target's own units; or accuracy."""
        return evaluation.to_json() | regression_figures(
            evaluation, self._data.test, self._scale, self._data.target_names
        )

    def artifact(self, metrics: dict[str, Any]) -> ArtifactConfig:
        """Describe names of columns, target and classes, and standardisation."""
        return TableArtifactConfig(
            experiment=self.config,
            columns=self._data.feature_names,
            categories=self._data.categories,
            targets=self._data.target_names,
            labels=self._data.label_names,
            standardization=self._scale,
            split=_split_summary(self._data.split),
            metrics=metrics,
            versions=current_versions(),
            network=None if self._data.origin is None else self._data.origin.network,
        )

    def artifact_files(self) -> dict[str, bytes]:
        """Images of the samples, in their order, where the rows are features of images."""
        samples = None if self._data.origin is None else self._data.origin.samples
        return {} if samples is None else {NETWORK_IMAGES: image_file(samples.images)}

    def samples(self) -> TableSet:
        """Select test rows, with targets in their own units; of features those of the sample images, all of them."""
        samples = None if self._data.origin is None else self._data.origin.samples
        if samples is not None:
            return TableSet(inputs=samples.features, targets=samples.labels)
        return self._data.test.select(spread(len(self._data.test)))


def setup_for(config: ExperimentConfig, data: ImageData | TableData) -> RunSetup:
    """Set up the run of a configuration on its data."""
    return ImageSetup(config, data) if isinstance(data, ImageData) else TableSetup(config, data)


def _accuracy(labels: IndexArray, classes: int, views: int = 1) -> Metric:
    """Accuracy, of groups of classes too where the training labels [N], of several views each, are imbalanced."""
    return accuracy_for((np.bincount(labels, minlength=classes) // views).tolist())


def _split_summary(split: SplitRecord) -> dict[str, Any]:
    imbalance = {} if split.imbalance is None else {"imbalance": split.imbalance.config.to_dict()}
    return {"seed": split.seed, "counts": dict(split.counts), "sha256": split.sha256, **imbalance}


def spread(total: int) -> IndexArray:
    """Choose the positions of at most 256 examples, spread over ``total``."""
    return np.linspace(0, total - 1, min(_SAMPLES, total)).astype(np.int64)

"""What a run is about, from its data to its artifact: the one place of a run that knows images from rows."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch

from mntrain.artifact import (
    ArtifactConfig,
    ImageArtifactConfig,
    InputSpec,
    TableArtifactConfig,
    build_model,
    build_regressor,
    current_versions,
)
from mntrain.config import ExperimentConfig
from mntrain.data.augmentation import Augmentation, AugmentationConfig
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.data.split_record import SplitRecord
from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.data.tables import TableData, TableSet
from mntrain.errors import ConfigError
from mntrain.models.base import Model
from mntrain.training.evaluation import Evaluation
from mntrain.training.regression import regression_figures
from mntrain.training.training_data import TrainingData, image_training_data, table_training_data

_SAMPLES = 256


class RunSetup(ABC):
    """A configuration and the data it is trained on."""

    def __init__(self, config: ExperimentConfig) -> None:
        self.config = config

    @property
    @abstractmethod
    def data(self) -> ImageData | TableData:
        """The three splits."""

    @abstractmethod
    def build_model(self) -> Model:
        """An untrained model that fits the data.

        Raises:
            ConfigError: family, backbone or settings do not fit the data.
        """

    @abstractmethod
    def task(self, device: torch.device) -> TrainingData:
        """What the loop trains and evaluates on, preprocessing on ``device``."""

    @abstractmethod
    def test_figures(self, found: Evaluation) -> dict[str, Any]:
        """What is reported on the test split."""

    @abstractmethod
    def artifact(self, result: dict[str, Any]) -> ArtifactConfig:
        """What the artifact says, with the run's ``result``."""

    @abstractmethod
    def samples(self) -> ImageSet | TableSet:
        """Held-out examples spread over the whole test split."""


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

    def build_model(self) -> Model:
        """A classifier on the configured backbone."""
        shape = (self._data.channels, self._data.height, self._data.width)
        return build_model(self.config, shape, self._data.num_classes)

    def task(self, device: torch.device) -> TrainingData:
        """Accuracy on images."""
        return image_training_data(self._data, self._augmentation.to(device), Preprocessing(self._pixels).to(device))

    def test_figures(self, found: Evaluation) -> dict[str, Any]:
        """Accuracy and loss."""
        return found.to_json()

    def artifact(self, result: dict[str, Any]) -> ArtifactConfig:
        """Size of the images, class names, normalisation."""
        return ImageArtifactConfig(
            experiment=self.config,
            input=InputSpec(channels=self._data.channels, height=self._data.height, width=self._data.width),
            labels=self._data.label_names,
            preprocessing=self._pixels,
            split=_split_summary(self._data.split),
            metrics=result,
            versions=current_versions(),
        )

    def samples(self) -> ImageSet:
        """Test images."""
        return self._data.test.select(_spread(len(self._data.test)))


class TableSetup(RunSetup):
    """Regression, or classification of rows.

    Raises:
        ConfigError: rows shall be augmented.
    """

    def __init__(self, config: ExperimentConfig, data: TableData) -> None:
        super().__init__(config)
        if config.augmentation != AugmentationConfig():
            raise ConfigError("augmentation changes images, but the data holds rows; leave the section out.")
        self._data = data
        self._scale = (
            StandardizationConfig.from_rows(data.train)
            if config.normalization == "per_channel"
            else StandardizationConfig.identity(data.features)
        )

    @property
    def data(self) -> TableData:
        """The three splits, as they are stored."""
        return self._data

    def build_model(self) -> Model:
        """A regressor, or a classifier on the configured backbone where the targets are classes."""
        if self._data.label_names is not None:
            return build_model(self.config, (self._data.features,), len(self._data.label_names))
        targets = self._scale.targets(self._data.train).targets
        return build_regressor(self.config, self._data.features, (float(targets.min()), float(targets.max())))

    def task(self, device: torch.device) -> TrainingData:
        """Squared error of standardised values, or accuracy."""
        return table_training_data(self._data, Standardization(self._scale).to(device))

    def test_figures(self, found: Evaluation) -> dict[str, Any]:
        """Squared error with what it means in the target's own units; or accuracy."""
        return found.to_json() | regression_figures(found, self._data.test, self._scale)

    def artifact(self, result: dict[str, Any]) -> ArtifactConfig:
        """Names of columns, target and classes, standardisation."""
        return TableArtifactConfig(
            experiment=self.config,
            columns=self._data.feature_names,
            target=self._data.target_name,
            labels=self._data.label_names,
            standardization=self._scale,
            split=_split_summary(self._data.split),
            metrics=result,
            versions=current_versions(),
        )

    def samples(self) -> TableSet:
        """Test rows, targets in their own units."""
        return self._data.test.select(_spread(len(self._data.test)))


def setup_for(config: ExperimentConfig, data: ImageData | TableData) -> RunSetup:
    """The problem that a configuration poses on its data."""
    return ImageSetup(config, data) if isinstance(data, ImageData) else TableSetup(config, data)


def _split_summary(split: SplitRecord) -> dict[str, Any]:
    return {"seed": split.seed, "counts": dict(split.counts), "sha256": split.sha256}


def _spread(total: int) -> Any:
    return np.linspace(0, total - 1, min(_SAMPLES, total)).astype(np.int64)

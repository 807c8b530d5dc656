"""Models whose dictionary is filled, not trained: keys are features of training images, values their classes.

Values have 90 % confidence, T = 0.2, and α = 0.3. For more classes than the images have, their features are grouped by
k-means, and a class is a group.

Shapes: features and keys [S, d]; classes int64 [S]; weight of the head [C, d].
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from common.calibration import features_of, fill_dictionary
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor

from adapting.sizes import Size
from mntrain.artifact import ImageArtifact, load_artifact, save_artifact
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.data.images import ImageSet
from mntrain.errors import DataError
from mntrain.layers.attention import unit
from mntrain.models.build import build_model
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.queries import mean_weight_change, spread_queries
from mntrain.training.artifact_data import load_split
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

_BATCH = 100


@dataclass(frozen=True)
class Training:
    """Training of the networks.

    Args:
        runs: folder of the runs.
        data: CIFAR-10 as a folder of parquet files.
        images: number of images to train on and to take keys from.
        epochs: number of epochs; few suffice for realistic features.
    """

    runs: Path
    data: str
    images: int = 10000
    epochs: int = 2


def trained(size: Size, training: Training) -> ImageArtifact:
    """Train a network with a plain head for a few epochs, or load it from its finished run."""
    words = ["--family", "vanilla", "--name", size.network, "--backbone.name", size.backbone]
    words += ["--backbone.ifilm", str(size.ifilm).lower(), "--data.path", training.data]
    words += ["--data.train_limit", str(training.images), "--training.epochs", str(training.epochs)]
    run = training.runs / size.network
    if not (run / "artifact").exists():
        fit(
            load_experiment("cifar10-jpeg", [*words, "--training.precision", "bf16-mixed"]),
            FitOptions(runs=training.runs, resume=run.exists(), quiet=True),
        )
    artifact = load_artifact(run / "artifact")
    assert isinstance(artifact, ImageArtifact)
    return artifact


@torch.inference_mode()
def calibrate(size: Size, plain: ImageArtifact, folder: Path) -> None:
    """Write an artifact with a dictionary of features of training images, unchanged and mirrored.

    Args:
        plain: of a trained network, with a dictionary or without one.

    Raises:
        DataError: there are too few images.
    """
    images = load_split(plain.config, "train", None)
    assert isinstance(images, ImageSet)
    if 2 * len(images) < size.entries:
        raise DataError(
            f"{size.name} needs {size.entries} keys, but {len(images)} training images, as they are and mirrored, give "
            f"{2 * len(images)}; train on more images, into another folder."
        )
    backbone = plain.model.get_submodule("backbone")
    features = features_of(backbone, plain.preprocessing, images.images)
    if len(features) < size.entries:
        mirrored = np.ascontiguousarray(images.images[..., ::-1])
        features = torch.cat([features, features_of(backbone, plain.preprocessing, mirrored)])
    features = features[: size.entries]
    classes = torch.from_numpy(np.tile(images.labels, 2)[: size.entries])
    weight = plain.model.get_parameter("head.weight").detach()
    labels = plain.config.labels
    if size.classes != len(labels):
        classes, weight = _groups(features, size.classes, weight)
        labels = tuple(f"group {index}" for index in range(size.classes))
    model = _with_dictionary(size, plain, features, classes, weight)
    experiment = model.experiment
    samples = ImageSet(images=plain.samples.images, labels=_answers(model.model, plain, len(labels), plain.samples))
    change = mean_weight_change(model.model, spread_queries(features))
    metrics = {"calibrated": True, "weight_change": change}
    config = dataclasses.replace(plain.config, experiment=experiment, labels=labels, metrics=metrics)
    save_artifact(folder, config, model.model.state_dict(), samples)


@dataclass(frozen=True)
class _Built:
    model: MetaNeighborhoods
    experiment: ExperimentConfig


def _with_dictionary(size: Size, plain: ImageArtifact, keys: Tensor, classes: Tensor, weight: Tensor) -> _Built:
    words = ["--name", size.name, "--backbone.name", size.backbone, "--backbone.ifilm", str(size.ifilm).lower()]
    words += ["--meta_neighborhoods.entries", str(size.entries)]
    experiment = dataclasses.replace(load_experiment("cifar10-jpeg", words), data=plain.config.experiment.data)
    shape = (plain.config.input.channels, plain.config.input.height, plain.config.input.width)
    model = build_model(experiment, shape, size.classes).eval()
    assert isinstance(model, MetaNeighborhoods)
    model.backbone.load_state_dict(plain.model.get_submodule("backbone").state_dict())
    model.head.get_parameter("scale").copy_(plain.model.get_parameter("head.scale"))
    fill_dictionary(model, keys, classes, weight)
    return _Built(model, experiment)


def _groups(features: Tensor, classes: int, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Group the features; returns the group of each, and a weight for each group as long as the trained ones."""
    points = unit(features)
    means = MiniBatchKMeans(classes, random_state=0, n_init=1).fit(points.numpy())
    centres = unit(torch.from_numpy(means.cluster_centers_).to(points.dtype))
    return torch.from_numpy(means.labels_).long(), centres * weight.norm(dim=-1).mean()


def _answers(model: MetaNeighborhoods, plain: ImageArtifact, classes: int, samples: ImageSet) -> np.ndarray:
    """Return the labels of the samples: the true ones, or the model's own answers where classes are groups."""
    if classes == len(plain.config.labels):
        return samples.labels
    parts = torch.split(torch.from_numpy(samples.images), _BATCH)
    answers = [model(plain.preprocessing(part)).logits.argmax(dim=-1) for part in parts]
    return torch.cat(answers).numpy().astype(samples.labels.dtype)

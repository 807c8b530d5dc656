"""Make models of the papers' sizes with dictionaries of real features, for benchmarks/adaptive_price.py.

    python benchmarks/adaptive_models.py build/price --data.path CIFAR10 --epochs 2
    python benchmarks/adaptive_models.py build/price --data.path CIFAR10 --only resnet56-10-5000 convnet4-10-5000
    python benchmarks/adaptive_models.py build/price --regression table.csv --only mlp-1000

The cost of a low-rank form depends on the rank that real attention needs, so random dictionaries do not suffice.
Training dictionaries of 5,000 and 10,000 entries on the deepest backbones takes long on a CPU. Instead the backbone is
trained for a few epochs without a dictionary, and the dictionary is calibrated: keys are features of training images,
values their classes with 90 % confidence, T = 0.2, and α = 0.3, as training on PACS learned it. For 100 classes the
features are grouped by k-means, and a class is a group. The models are written as artifacts for mnexport.
"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from common.calibration import features_of, fill_dictionary
from common.options import positive_integer, script_parser
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor

from mntrain.artifact import ImageArtifact, load_artifact, save_artifact
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.data.images import ImageSet
from mntrain.errors import DataError, MnTrainError
from mntrain.layers.attention import unit
from mntrain.models.build import build_model
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.training.artifact_data import load_split
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

_BATCH = 100


@dataclass(frozen=True)
class Size:
    """Size of a model that is measured.

    Raises:
        ValueError: fewer than two classes, or fewer entries than classes.
    """

    backbone: str
    classes: int
    entries: int
    ifilm: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= self.entries:
            raise ValueError(
                f"{self.classes} classes and {self.entries} entries do not go together; there are at least 2 classes, "
                "and as many entries"
            )

    @property
    def name(self) -> str:
        """Name of the artifact."""
        return f"{self.compiled_part}-{self.classes}-{self.entries}"

    @property
    def compiled_part(self) -> str:
        """Name of the run that trains the backbone."""
        return self.backbone + ("-ifilm" if self.ifilm else "")


@dataclass(frozen=True)
class Training:
    """Training of the backbones.

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


SIZES = (
    Size("resnet56", 10, 5000),
    Size("resnet29", 10, 5000),
    Size("densenet40bc", 10, 5000),
    Size("convnet4", 10, 5000),
    Size("resnet56", 100, 10000),
    Size("resnet56", 10, 5000, ifilm=True),
)
REGRESSION = "mlp-1000"


def main() -> int:
    parser = script_parser(__doc__)
    names = [*(size.name for size in SIZES), REGRESSION]
    parser.add_argument("output", type=Path, help="folder for the artifacts")
    parser.add_argument("--data.path", dest="data", metavar="PATH", help="CIFAR-10 as a folder of parquet files")
    parser.add_argument("--regression", metavar="FILE", help="table for the perceptron")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--epochs", type=positive_integer, default=2, help="of the backbones (2)")
    parser.add_argument(
        "--images", type=positive_integer, default=10000, help="to train on and to take keys from (10000)"
    )
    arguments = parser.parse_args()
    output: Path = arguments.output
    missing = [name for name in arguments.only if not (output / name).exists()]
    sizes = [size for size in SIZES if size.name in missing]
    if sizes and arguments.data is None:
        parser.error(f"{sizes[0].name} is made of CIFAR-10; give --data.path, or other names with --only")
    if missing == [REGRESSION] and arguments.regression is None:
        parser.error(f"{REGRESSION} is made of a table; give --regression")
    training = Training(output / "runs", arguments.data, arguments.images, arguments.epochs)
    try:
        for size in sizes:
            calibrate(size, trained(size, training), output / size.name)
            print(f"wrote {output / size.name}", flush=True)
        if REGRESSION in missing and arguments.regression is None:
            print(f"{REGRESSION}: left out, --regression is not given", file=sys.stderr, flush=True)
        elif REGRESSION in missing:
            _fit_perceptron(arguments.regression, output)
            print(f"wrote {output / REGRESSION}", flush=True)
    except MnTrainError as error:
        print(f"adaptive_models: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def trained(size: Size, training: Training) -> ImageArtifact:
    """Train a backbone with a plain head for a few epochs, or load it from its finished run."""
    words = ["--family", "vanilla", "--name", size.compiled_part, "--backbone.name", size.backbone]
    words += ["--backbone.ifilm", str(size.ifilm).lower(), "--data.path", training.data]
    words += ["--data.train_limit", str(training.images), "--training.epochs", str(training.epochs)]
    run = training.runs / size.compiled_part
    if not (run / "artifact").exists():
        fit(
            load_experiment("cifar10-jpeg", [*words, "--training.precision", "bf16-mixed"]),
            FitOptions(runs=training.runs, resume=run.exists(), quiet=True),
        )
    artifact = load_artifact(run / "artifact")
    assert isinstance(artifact, ImageArtifact)
    return artifact


def _fit_perceptron(table: str, output: Path) -> None:
    run = output / "runs" / REGRESSION
    if not (run / "artifact").exists():
        words = ["--data.path", table, "--name", REGRESSION, "--meta_neighborhoods.entries", "1000"]
        fit(load_experiment("uci", words), FitOptions(runs=run.parent, resume=run.exists(), quiet=True))
    (run / "artifact").rename(output / REGRESSION)


@torch.inference_mode()
def calibrate(size: Size, plain: ImageArtifact, folder: Path) -> None:
    """Write an artifact with a dictionary of features of training images, unchanged and mirrored.

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
    config = dataclasses.replace(plain.config, experiment=experiment, labels=labels, metrics={"calibrated": True})
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


if __name__ == "__main__":
    sys.exit(main())

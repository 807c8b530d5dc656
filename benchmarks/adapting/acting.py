"""Training of models whose dictionary starts from data, on a small budget."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from adapting.sizes import REGRESSION, Size
from mntrain.config import load_experiment
from mntrain.errors import DataError
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

_VALIDATION = 0.1
_TEST_IMAGES = 500
_FEW_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Budget of a training.

    Args:
        folder: of the artifacts; runs and smaller sets of images lie in it.
        data: CIFAR-10, and a set of 100 classes, as folders of parquet files; None where none is given.
        share: images to train and validate on for each entry; below 1 several entries start at one image.
        epochs: all but the last train the network alone.
    """

    folder: Path
    data: tuple[str | None, str | None]
    share: float
    epochs: int

    def data_of(self, size: Size) -> str | None:
        """Return the folder of the images that a model of this size is trained on."""
        return self.data[size.classes > _FEW_CLASSES]


def train_acting(size: Size, budget: Budget) -> None:
    """Train a classifier within the budget, and move its artifact to its place.

    The dictionary starts from data before the last epoch; entries are dropped for whole batches, which is cheaper.

    Raises:
        DataError: there are too few images.
    """
    images = round(budget.share * size.entries)
    source = Path(str(budget.data_of(size)))
    data = fewer_images(source, budget.folder / "data" / f"{source.name}-{images}", images)
    words = ["--name", size.name, "--data.path", str(data), "--data.validation_fraction", str(_VALIDATION)]
    words += ["--backbone.name", size.backbone, "--backbone.ifilm", str(size.ifilm).lower()]
    words += ["--meta_neighborhoods.entries", str(size.entries), "--meta_neighborhoods.dropout_mode", "per_batch"]
    words += ["--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", str(budget.epochs - 1)]
    words += ["--training.epochs", str(budget.epochs), "--training.batch_size", "64"]
    _fit("cifar10-jpeg", [*words, "--training.precision", "bf16-mixed"], budget.folder / size.name)


def train_perceptron(table: str, folder: Path) -> None:
    """Train the perceptron with a data start on a table, and move its artifact into ``folder``."""
    words = ["--name", REGRESSION, "--data.path", table, "--meta_neighborhoods.entries", "1000"]
    _fit("uci", [*words, "--meta_neighborhoods.init", "data"], folder / REGRESSION)


def _fit(recipe: str, words: list[str], place: Path) -> None:
    run = place.parent / "runs" / place.name
    if not (run / "artifact").exists():
        options = FitOptions(runs=run.parent, resume=run.exists(), quiet=True)
        fit(load_experiment(recipe, words), options)
    (run / "artifact").rename(place)


def fewer_images(source: Path, folder: Path, images: int) -> Path:
    """Write a set of ``images`` training rows and 500 rows to test on, spread over another one; returns its folder.

    Raises:
        DataError: there is no such set, or it has too few training rows.
    """
    if folder.exists():
        return folder
    train, test = source / "train.parquet", source / "test.parquet"
    test = test if test.is_file() else source / "val.parquet"
    for file in (train, test):
        if not file.is_file():
            raise DataError(f"{source} holds no {file.name}; give the folder of a set of images in parquet files.")
    scratch = folder.with_name(f".{folder.name}")
    scratch.mkdir(parents=True, exist_ok=True)
    for file, wanted in ((train, images), (test, _TEST_IMAGES)):
        table = pq.read_table(file)
        if file is train and wanted > len(table):
            raise DataError(f"{file} has {len(table)} rows, but {wanted} are needed; take fewer images or entries.")
        chosen = np.linspace(0, len(table) - 1, min(wanted, len(table))).astype(np.int64)
        pq.write_table(table.take(chosen), scratch / ("train.parquet" if file is train else "test.parquet"))
    scratch.rename(folder)
    return folder

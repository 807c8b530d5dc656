"""A small network on four classes of made-up pictures, and pictures of six other classes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.commands.cli import main

SIDE = 16
IMAGES = 9
"""Images of each new class."""


def write_classes(path: Path, names: list[str], count: int, seed: int) -> Path:
    """Write a folder of pictures for each name: a colour of the class, and noise."""
    generator = np.random.default_rng(seed)
    for name in names:
        (path / name).mkdir(parents=True)
        colour = generator.integers(40, 215, (1, 1, 3))
        for number in range(count):
            pixels = np.clip(colour + generator.integers(-40, 40, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(path / name / f"{number}.png")
    return path


def train(runs: Path, name: str, data: Path, *words: str) -> Path:
    """Train a small network on the folder; returns its artifact."""
    fixed = ["--family", "vanilla", "--backbone.name", "cnn4", "--backbone.width", "0.25", "--training.epochs", "2"]
    fixed += ["--data.image_size", str(SIDE), "--augmentation.crop_padding", "0"]
    fixed += ["--training.batch_size", "16", "--runs", str(runs), "--name", name, "--data.path", str(data), "--json"]
    assert main(["fit", "images", *fixed, *words]) == 0
    return runs / name / "artifact"


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of four classes to train on."""
    return write_classes(tmp_path_factory.mktemp("base"), ["a", "b", "c", "d"], 24, seed=0)


@pytest.fixture(scope="session")
def novel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of six other classes."""
    return write_classes(tmp_path_factory.mktemp("novel"), list("uvwxyz"), IMAGES, seed=1)


@pytest.fixture(scope="session")
def plain_path(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifact of an ordinary network."""
    return train(tmp_path_factory.mktemp("plain"), "plain", base)


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pictures of each of four further classes."""
    return write_classes(tmp_path_factory.mktemp("four"), list("efgh"), 2, seed=2)


@pytest.fixture(scope="session")
def extra(base: Path, tmp_path_factory: pytest.TempPathFactory) -> ImageArtifact:
    """A network with an extra layer below its head."""
    return _images(train(tmp_path_factory.mktemp("extra"), "extra", base, "--vanilla.extra_parameters", "500"))


@pytest.fixture(scope="session")
def dynamic_path(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifact of a network with dynamic similarity."""
    words = ["--backbone.similarity.mode", "dynamic", "--backbone.similarity.hidden", "4"]
    return train(tmp_path_factory.mktemp("dynamic"), "dynamic", base, *words)


@pytest.fixture(scope="session")
def plain(plain_path: Path) -> ImageArtifact:
    """The ordinary network."""
    return _images(plain_path)


@pytest.fixture(scope="session")
def dynamic(dynamic_path: Path) -> ImageArtifact:
    """The network with dynamic similarity."""
    return _images(dynamic_path)


def _images(path: Path) -> ImageArtifact:
    artifact = load_artifact(path)
    assert isinstance(artifact, ImageArtifact)
    return artifact


@pytest.fixture(scope="session")
def one_set(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures of the four classes in one file, where they are called "old/a", "old/b", "new/c" and "new/d"."""
    files = sorted(base.glob("*/*.png"))
    names = [f"{'old' if file.parent.name in 'ab' else 'new'}/{file.parent.name}" for file in files]
    images = [{"bytes": file.read_bytes(), "path": None} for file in files]
    path = tmp_path_factory.mktemp("set") / "set.parquet"
    pq.write_table(pa.table({"img": images, "label": names}), path)
    return path


@pytest.fixture(scope="session")
def some_classes_path(one_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifact of a network that was trained on two of the four classes."""
    return train(tmp_path_factory.mktemp("some"), "some", one_set, "--data.classes", "!new/*")

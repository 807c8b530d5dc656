"""Pipes, sockets and devices in the place of files are refused: opening a pipe would wait for a writer for ever."""

import codecs
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mnexport.errors import PublishError
from mnexport.repository.target import Target, kinds_of
from mntrain.analysis.trained_sweeps import read_sweeps
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.config import load_experiment
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_source
from mntrain.errors import ArtifactError, CheckpointError, ConfigError, DataError, MnTrainError
from mntrain.neighbors.file import read_neighbors
from mntrain.regular_files import read_text, regular
from mntrain.training.checkpoint import load_state
from mntrain.training.stored_run import check_same_run, read_metrics


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """A test that waits for a writer fails instead of waiting on."""

    def end(*_: object) -> None:
        raise TimeoutError("it waits")

    earlier = signal.signal(signal.SIGALRM, end)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, earlier)


def pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


@pytest.fixture
def artifact(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "meta_neighborhoods" / "artifact", tmp_path / "artifact"))


def test_regular_files_folders_and_missing_ones_are_left_to_whoever_opens_them(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link", ".", "none", "a" * 5000, "zero\0"):
        assert regular(tmp_path / name) == tmp_path / name


def test_pipes_sockets_and_devices_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(pipe(tmp_path / "pipe"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(OSError, match="It is a pipe, a socket or a device, not a file"):
                regular(path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "samples.safetensors"])
def test_files_of_an_artifact(artifact: Path, name: str) -> None:
    pipe(artifact / name)
    with pytest.raises(ArtifactError, match=rf"{name} .*It is a pipe, a socket or a device"):
        load_artifact(artifact)


def test_the_neighbors_of_an_artifact(artifact: Path) -> None:
    loaded = load_artifact(artifact)
    assert isinstance(loaded, ImageArtifact)
    pipe(artifact / "neighbors.safetensors")
    with pytest.raises(ArtifactError, match=r"neighbors\.safetensors .*It is a pipe, a socket or a device"):
        read_neighbors(loaded)


def test_the_record_of_a_published_version(tmp_path: Path) -> None:
    pipe(tmp_path / "m" / "1" / "export.json")
    with pytest.raises(PublishError, match=r"export\.json is missing or damaged"):
        kinds_of(Target(repository=tmp_path, name="m"))


@pytest.mark.parametrize(
    ("read", "name", "error"),
    [
        (lambda path: load_experiment(str(path), []), "recipe.yaml", ConfigError),
        (lambda path: load_experiment(str(path), []), "recipe", ConfigError),
        (read_sweeps, "compare.json", ArtifactError),
        (load_state, "last.pt", CheckpointError),
        (lambda path: read_metrics(path.parent), "metrics.json", ConfigError),
        (lambda path: check_same_run(path.parent, load_experiment("digits", []), ""), "config.yaml", ConfigError),
    ],
)
def test_files_that_are_named(
    tmp_path: Path, read: Callable[[Path], object], name: str, error: type[MnTrainError]
) -> None:
    with pytest.raises(error):
        read(pipe(tmp_path / name))


@pytest.mark.parametrize(
    ("source", "name", "inside"),
    [
        ("table", "rows.csv", False),
        ("table", "rows.csv", True),
        ("table", "rows.parquet", True),
        ("datasets", "rows.parquet", False),
        ("datasets", "pipe", False),
        ("datasets", "state.json", True),
        ("datasets", "rows.parquet", True),
        ("idx", "train-images-idx3-ubyte", True),
    ],
)
def test_data(tmp_path: Path, source: str, name: str, inside: bool) -> None:
    path = pipe(tmp_path / "data" / name)
    config = DataConfig(source=source, path=str(path.parent if inside else path))
    with pytest.raises(DataError):
        load_source(config)


def test_a_pipe_among_the_files_of_a_saved_data_set(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    pipe(tmp_path / "data" / "train" / "state.json")
    with pytest.raises(DataError, match="It is a pipe, a socket or a device"):
        load_source(DataConfig(source="datasets", path=str(tmp_path / "data")))


def test_text_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_bytes(codecs.BOM_UTF8 + b"seed: 7\r\ndata:\r\n  source: digits\r\n")
    assert load_experiment(str(recipe)).seed == 7
    (tmp_path / "text").write_bytes(codecs.BOM_UTF8 + "größe\r\n".encode())
    assert read_text(tmp_path / "text") == "größe\r\n"


def test_text_that_nobody_writes_so_long_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    with recipe.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)  # takes no room on the disk
    with pytest.raises(ConfigError, match="It has more than 67108864 bytes, and no more are read of a text"):
        load_experiment(str(recipe))


def test_a_pipe_that_a_table_of_images_names(tmp_path: Path) -> None:
    image = {"bytes": None, "path": str(pipe(tmp_path / "pipe.png"))}
    rows = pa.table({"image": [image] * 3, "label": [0, 1, 0]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"image 0 .*pipe\.png.* It is a pipe, a socket or a device"):
        load_source(DataConfig(source="datasets", path=str(tmp_path / "rows.parquet")))

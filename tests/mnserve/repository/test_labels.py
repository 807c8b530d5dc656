"""Label files of outputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mnserve.engines.base import EngineOptions
from mnserve.errors import ModelConfigError
from mnserve.models.loading import LoadOptions, load
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelOutput
from mnserve.repository.labels import labels_by_output, read_labels


def read(folder: Path, name: str) -> tuple[str, ...]:
    return read_labels(folder, ModelOutput(name="y", label_filename=name), "m")


def test_lines_are_the_names_of_classes(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes("\ufeffcat\r\n\n  dog \nfür\u2028alle\n".encode())
    assert read(tmp_path, "labels.txt") == ("cat", "", "dog", "für\u2028alle")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "names").write_text("one")
    assert read(tmp_path, "below/names") == ("one",)
    (tmp_path / "link").symlink_to(tmp_path / "labels.txt")
    assert read(tmp_path, "link")[0] == "cat"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone.txt", r"cannot be read \(No such file or directory\); put the file there"),
        ("../labels.txt", "lies outside of the model's folder"),
        ("a/../../labels.txt", "lies outside"),
        ("/etc/hostname", "lies outside"),
        ("a\0b", "lies outside"),
        ("folder", "no regular file"),
        ("pipe", "no regular file"),
        ("bytes", "UTF-16"),
        ("large", "more than 4194304 bytes"),
    ],
)
def test_other_files_are_not_read(tmp_path: Path, name: str, words: str) -> None:
    folder = tmp_path / "m"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "labels.txt").write_text("secret")
    os.mkfifo(folder / "pipe")
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (folder / "large").touch()
    os.truncate(folder / "large", 2**22 + 1)
    with pytest.raises(ModelConfigError, match=words) as caught:
        read(folder, name)
    assert "secret" not in str(caught.value)


def test_a_missing_label_file_is_a_warning(
    repository: Path, double_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    y = 'output { name: "y" data_type: TYPE_FP32 dims: [4] label_filename: "labels.txt" }'
    folder = double_model("m", config=f"max_batch_size: 4 {y}")
    options = LoadOptions(engine=EngineOptions(intra_op_threads=1))
    model = load(repository, "m", 1, options)
    model.engine.close()
    assert model.signature.labels == {}
    assert "labels.txt of output 'y' cannot be read (No such file or directory); put" in caplog.text
    (folder / "labels.txt").write_text("a\nb\n")
    model = load(repository, "m", 1, options)
    model.engine.close()
    assert model.signature.labels == {"y": ("a", "b")}


def test_outputs_without_a_label_file_have_no_labels(tmp_path: Path) -> None:
    assert labels_by_output(ModelConfig(output=[ModelOutput(name="y")]), tmp_path) == {}

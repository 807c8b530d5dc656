"""Files that are what was published, and files that are not."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mnserve.errors import CorruptModelError
from mnserve.repository.model_files import verify
from mnserve.repository.reader import read_model

WriteModel = Callable[..., Path]


def test_a_changed_file_fails_its_hash(repository: Path, double_model: WriteModel) -> None:
    folder = double_model("m") / "1"
    digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    (folder / "export.json").write_text(json.dumps({"sha256": {"model.onnx": digest}}))
    verify(read_model(repository, "m"))
    with (folder / "model.onnx").open("ab") as stream:
        stream.write(b"\0")
    with pytest.raises(CorruptModelError, match=digest):
        verify(read_model(repository, "m"))
    (folder / "export.json").write_text(json.dumps({"sha256": {"../model.onnx": digest}}))
    with pytest.raises(CorruptModelError, match="plain file name"):
        verify(read_model(repository, "m"))
    (folder / "export.json").write_text(json.dumps({"sha256": {"weights.bin": digest}}))
    with pytest.raises(CorruptModelError, match=r"weights\.bin"):
        verify(read_model(repository, "m"))


@pytest.mark.parametrize("file_name", ["../../secret", "/etc/passwd", "..", "a/b"])
def test_a_model_file_outside_the_version_folder_is_refused(
    repository: Path, double_model: WriteModel, file_name: str
) -> None:
    double_model("m", config=f'default_model_filename: "{file_name}"')
    with pytest.raises(CorruptModelError, match="plain file name"):
        read_model(repository, "m")


def test_a_pipe_among_the_files_is_not_waited_for(repository: Path, double_model: WriteModel) -> None:
    folder = double_model("m")
    os.mkfifo(folder / "1" / "cpu.onnx")
    (folder / "1" / "export.json").write_text(json.dumps({"sha256": {"cpu.onnx": "0"}}))
    with pytest.raises(CorruptModelError, match="is missing or is no file"):
        verify(read_model(repository, "m"))

"""What is a model among the folders of a repository, and what is left out."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mnserve.errors import ModelNotFoundError
from mnserve.repository.listing import look_through
from mnserve.repository.reader import read_model

WriteModel = Callable[..., Path]

NO_VERSION = "neither a version folder, such as {}/1, nor a config.pbtxt"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("lost+found", (), "a folder of the system"),
        ("__pycache__", ("a.cpython-312.pyc",), "a folder of the system"),
        ("System Volume Information", ("1/model.onnx",), "a folder of the system"),
        ("$RECYCLE.BIN", ("S-1-5-18/desktop.ini",), "a folder of the system"),
        ("@eaDir", ("m@SynoEAStream",), "a folder of the system"),
        ("#recycle", (), "a folder of the system"),
        ("notes", ("README.md",), NO_VERSION.format("notes")),
        ("flat", ("model.onnx",), NO_VERSION.format("flat")),
        ("zero", ("0/model.onnx", "01/model.onnx", "v1/model.onnx"), NO_VERSION.format("zero")),
        ("file-1", ("1",), NO_VERSION.format("file-1")),
    ],
)
def test_stray_folders_are_no_models(
    repository: Path, double_model: WriteModel, name: str, content: tuple[str, ...], reason: str
) -> None:
    double_model("m")
    (repository / name).mkdir()
    for path in content:
        (repository / name / path).parent.mkdir(exist_ok=True)
        (repository / name / path).touch()
    listing = look_through(repository)
    assert listing.models == ("m",)
    assert listing.left_out == {name: reason}


def test_a_folder_with_a_configuration_or_a_version_is_a_model(repository: Path, double_model: WriteModel) -> None:
    double_model("whole")
    (repository / "configured").mkdir()
    (repository / "configured" / "config.pbtxt").touch()
    (repository / "versioned" / "1").mkdir(parents=True)
    (repository / "linked").symlink_to(repository / "whole")
    (repository / "half-linked").mkdir()
    (repository / "half-linked" / "config.pbtxt").symlink_to("nowhere")
    (repository / "unmounted").mkdir()
    (repository / "unmounted" / "2").symlink_to("nowhere")
    listing = look_through(repository)
    assert listing.models == ("configured", "half-linked", "linked", "unmounted", "versioned", "whole")
    assert not listing.left_out


def test_files_and_hidden_entries_are_passed_over_and_links_to_nowhere_are_left_out(
    repository: Path, double_model: WriteModel
) -> None:
    double_model("m")
    (repository / "README.md").touch()
    (repository / ".git" / "1").mkdir(parents=True)
    (repository / "linked-file").symlink_to("README.md")
    (repository / "gone").symlink_to("/nowhere/gone")
    (repository / "itself").symlink_to("itself")
    os.mkfifo(repository / "pipe")
    listing = look_through(repository)
    assert listing.models == ("m",)
    assert listing.left_out == {
        "gone": "a link that leads to nothing",
        "itself": "a link that leads to nothing",
    }


def test_a_folder_name_that_is_no_text_is_left_out(
    repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    double_model("good")
    odd = os.fsdecode(b"odd-\xff")
    (repository / odd / "1").mkdir(parents=True)
    listing = look_through(repository)
    assert listing.models == ("good",)
    listing.log_left_out()
    listing.log_left_out(known=listing.left_out)
    assert [record.getMessage() for record in caplog.records] == [
        r"left out of the model repository: b'odd-\xff' (its name is not UTF-8; rename it)"
    ]
    with pytest.raises(ModelNotFoundError, match="it has good"):
        read_model(repository, odd)


def test_a_folder_that_cannot_be_looked_into_is_a_model_unless_it_is_the_system_s(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test may run as root, for whom every folder can be read."""
    double_model("m")
    (repository / "lost+found").mkdir()

    def refuse(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    listing = look_through(repository)
    assert listing.models == ("m",)
    assert listing.left_out == {"lost+found": "a folder of the system"}
    with pytest.raises(ModelNotFoundError, match="cannot be read: Permission denied"):
        read_model(repository, "m")


def test_a_folder_on_a_drive_that_does_not_answer_is_a_model(
    repository: Path, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mount point whose server is gone is, for which every call fails."""
    folder = double_model("m")
    asked = os.stat

    def refuse(path: Path, **named: object) -> os.stat_result:
        if Path(path) == folder:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return asked(path, **named)  # type: ignore[arg-type]

    def refuse_list(path: Path) -> list[str]:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(os, "listdir", refuse_list)
    assert look_through(repository).models == ("m",)
    with pytest.raises(ModelNotFoundError, match="cannot be read: Transport endpoint is not connected"):
        read_model(repository, "m")

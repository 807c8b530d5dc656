"""A process is killed while it replaces a folder: the folder is there, whole, and nothing is left for long."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mntrain import atomic_files
from mntrain.atomic_files import folder_atomically, temporary_folder, write_text_atomically

WRITER = """
import os, signal, sys
from pathlib import Path
from mntrain import atomic_files

target, point = Path(sys.argv[1]), sys.argv[2]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
exchange, rename = atomic_files._exchange, Path.rename
if point == "exchanged":
    atomic_files._exchange = lambda one, other: exchange(one, other) and die()
elif point == "cleared":
    atomic_files._clear = die
elif point == "between":
    atomic_files._exchange = lambda one, other: False
    Path.rename = lambda self, to: (rename(self, to), die())
with atomic_files.folder_atomically(target) as folder:
    (folder / "one").write_text("new")
    if point == "writing":
        die()
    (folder / "two").write_text("new")
"""


def kill_writer(target: Path, point: str) -> None:
    ended = subprocess.run([sys.executable, "-c", WRITER, str(target), point], check=False)
    assert ended.returncode == -signal.SIGKILL


def content(folder: Path) -> dict[str, str]:
    return {item.name: item.read_text() for item in folder.iterdir()}


OLD = {"one": "old", "two": "old"}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    target = tmp_path / "models" / "m"
    target.mkdir(parents=True)
    for name, text in OLD.items():
        (target / name).write_text(text)
    return target


@pytest.mark.parametrize("point", ["writing", "exchanged", "cleared"])
def test_a_killed_writer_leaves_a_whole_folder(target: Path, point: str) -> None:
    kill_writer(target, point)
    assert content(target) == (OLD if point == "writing" else {"one": "new", "two": "new"})
    assert len(list(target.parent.iterdir())) == 2, "what the killed process left"
    write_text_atomically(target.parent / "other", "x")
    assert sorted(item.name for item in target.parent.iterdir()) == ["m", "other"]


def test_where_names_cannot_be_exchanged_the_next_write_puts_the_old_folder_back(target: Path) -> None:
    kill_writer(target, "between")
    assert not target.exists()
    write_text_atomically(target.parent / "other", "x")
    assert content(target) == OLD
    assert sorted(item.name for item in target.parent.iterdir()) == ["m", "other"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
def test_two_renames_replace_a_folder_where_there_is_no_exchange(
    target: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def renameat2(self, *_: object) -> int:
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Library())
    monkeypatch.setattr("ctypes.get_errno", lambda: number)
    with folder_atomically(target) as folder:
        (folder / "one").write_text("new")
    assert content(target) == {"one": "new"}
    assert [item.name for item in target.parent.iterdir()] == ["m"]


def test_a_rename_that_fails_puts_the_old_folder_back(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fail(self: Path, to: Path) -> Path:
        if self.read_text() if self.is_file() else (self / "one").read_text() == "new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr(atomic_files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="Input/output error"), folder_atomically(target) as folder:
        (folder / "one").write_text("new")
    assert content(target) == OLD
    assert [item.name for item in target.parent.iterdir()] == ["m"]


def test_what_others_are_writing_or_have_left_stays(tmp_path: Path) -> None:
    """Only folders of our name that nobody holds are removed."""
    for name in (".mine", ".mntrain", ".m.abcdefgh"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / ".mntrain-pipe")
    (tmp_path / ".mntrain-link").symlink_to(tmp_path / ".mine")
    (tmp_path / ".mntrain-file").write_text("x")
    before = {item.name for item in tmp_path.iterdir()}
    with temporary_folder(tmp_path) as one, temporary_folder(tmp_path) as other:
        write_text_atomically(tmp_path / "a", "x")
        assert one.is_dir()
        assert other.is_dir()
    assert {item.name for item in tmp_path.iterdir()} == before | {"a"}

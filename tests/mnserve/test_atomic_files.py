"""Result files are complete or not there at all."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mnserve.atomic_files import check_writable, write_atomically
from mnserve.errors import OutputError


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OutputError, match=r"cannot write .*a\.json: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_the_longest_name_there_is(tmp_path: Path) -> None:
    check_writable(tmp_path / ("a" * 255))
    write_atomically(tmp_path / ("a" * 255), b"x")
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"x"]
    with pytest.raises(OutputError, match="names of files have at most 255 bytes"):
        check_writable(tmp_path / ("a" * 256))


def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    """A file is put in place by renaming, which would take the place of a device or pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(OutputError, match="it is a device or a pipe; give the name of a file"):
            check_writable(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    check_writable(tmp_path / "new")


def test_a_link_stays_one_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old").write_text("old")
    for name in ("old", "new"):
        link = tmp_path / f"to-{name}"
        link.symlink_to(Path("there") / name)
        check_writable(link)
        write_atomically(link, b"written")
        assert link.is_symlink()
        assert (tmp_path / "there" / name).read_bytes() == b"written"
    assert sorted(entry.name for entry in (tmp_path / "there").iterdir()) == ["new", "old"]
    (tmp_path / "astray").symlink_to(Path("gone") / "file")
    with pytest.raises(OutputError, match=r"astray: the folder .*gone does not exist"):
        check_writable(tmp_path / "astray")


def test_a_file_keeps_its_permissions_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    for name, mode in (("secret", 0o600), ("shared", 0o664)):
        (tmp_path / name).write_bytes(b"old")
        (tmp_path / name).chmod(mode)
        write_atomically(tmp_path / name, b"new")
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "new", b"new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from mnserve import atomic_files\n"
        "atomic_files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "atomic_files.write_atomically(Path(sys.argv[1]), b'new')\n"
    )
    (tmp_path / "a").write_text("old")
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = [entry for entry in tmp_path.iterdir() if entry.name != "a"]
    held = tmp_path / ".mnserve-held"
    (tmp_path / ".mnserve-folder").mkdir()
    os.mkfifo(tmp_path / ".mnserve-pipe")
    with held.open("xb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        write_atomically(tmp_path / "b", b"x")
    assert not left.exists()
    assert (tmp_path / "a").read_text() == "old"
    names = {entry.name for entry in tmp_path.iterdir()}
    assert names == {"a", "b", held.name, ".mnserve-folder", ".mnserve-pipe"}

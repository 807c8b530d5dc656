"""Files and folders appear whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from mntrain.atomic_files import folder_atomically, follow_umask, write_atomically, write_text_atomically


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text_atomically(file, "old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(file, fail)
    assert file.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_block_leaves_the_old_folder_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with folder_atomically(target) as folder:
        (folder / "x").write_text("old")

    def half() -> None:
        with folder_atomically(target) as folder:
            (folder / "x").write_text("half")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        half()
    assert (target / "x").read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


def test_nothing_is_visible_before_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with folder_atomically(target) as folder:
        (folder / "x").write_text("new")
        assert not target.exists()
        assert all(item.name.startswith(".") for item in tmp_path.iterdir())
    assert (target / "x").read_text() == "new"


def test_a_finished_folder_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for text in ("one", "two"):
        with folder_atomically(target) as folder:
            (folder / text).write_text(text)
    assert [item.name for item in target.iterdir()] == ["two"]
    assert target.stat().st_mode & 0o077 != 0, "others may read what the umask lets them read"


def test_a_pipe_or_a_device_is_never_replaced(tmp_path: Path) -> None:
    """As root a rename would replace /dev/null itself."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="device or a pipe"):
        write_text_atomically(pipe, "x")
    with pytest.raises(NotADirectoryError), folder_atomically(pipe):
        pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [item.name for item in tmp_path.iterdir()] == ["pipe"]


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with folder_atomically(tmp_path / "link") as folder:
        (folder / "a").write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_text() == "x"


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int) -> None:
    """Also where a library makes a file of its own that only its owner may read."""

    def write(temporary: Path) -> None:
        own = temporary.with_name("own")
        own.touch(0o600)
        own.replace(temporary)

    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", write)
        with folder_atomically(tmp_path / "folder") as folder:
            (folder / "inner").mkdir()
            write(folder / "inner" / "file")
            follow_umask(folder / "inner" / "file")
    finally:
        os.umask(before)
    found = {str(item.relative_to(tmp_path)): stat.S_IMODE(item.stat().st_mode) for item in tmp_path.rglob("*")}
    files, folders = 0o666 & ~mask, 0o777 & ~mask
    assert found == {"file": files, "folder": folders, "folder/inner": folders, "folder/inner/file": files}

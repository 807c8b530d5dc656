"""Work in progress on a disk without room."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from mnexport.errors import ScratchError
from mnexport.scratch import scratch_folder


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_a_sentence(number: int) -> None:
    used = []

    def work() -> None:
        with scratch_folder() as path:
            used.append(path)
            (path / "model.onnx").write_bytes(b"x")
            raise OSError(number, os.strerror(number))

    with pytest.raises(ScratchError, match=r"is full: .*TMPDIR.*Nothing was published") as caught:
        work()
    assert str(used[0]) in str(caught.value)
    assert not used[0].exists()


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(PermissionError), scratch_folder():
        raise PermissionError(errno.EACCES, "Permission denied")


def test_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ScratchError, match="set TMPDIR"), scratch_folder():
        pass

"""Scratch folder on a disk without room, and signals that end an export."""

import errno
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from mnexport.errors import ScratchError
from mnexport.scratch import scratch_folder
from mnexport.signals import Terminated, terminable


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


def test_a_missing_temporary_folder_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ScratchError, match="set TMPDIR"), scratch_folder():
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_and_a_second_one_does_not_stop_the_clearing(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Path] = []
    remove = shutil.rmtree

    def impatient(*fields: Any, **named: Any) -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGINT)
        remove(*fields, **named)

    def work() -> None:
        with terminable(), scratch_folder() as path:
            used.append(path)
            monkeypatch.setattr(shutil, "rmtree", impatient)
            os.kill(os.getpid(), number)
            time.sleep(10)

    inherited = signal.signal(number, signal.SIG_DFL)  # under nohup it would be ignored
    try:
        with pytest.raises(Terminated) as caught:
            work()
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, inherited)
    assert caught.value.exit_code == 128 + number
    assert not used[0].exists()


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminable():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_folder_is_made_leaves_no_folder(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make = tempfile.mkdtemp

    def interrupted(*fields: Any, **named: Any) -> str:
        path = make(*fields, **named)
        os.kill(os.getpid(), number)
        return path

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with pytest.raises(KeyboardInterrupt), terminable(), scratch_folder():
        raise AssertionError("the block ran")
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

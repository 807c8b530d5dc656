"""Restarts: they wait longer from one death to the next, and go on where the system starts no process."""

from __future__ import annotations

import errno
import os

import pytest

from mnserve.processes import restarts as module
from mnserve.processes.restarts import Restarts


def test_waits_grow_and_are_forgotten_after_a_calm_life() -> None:
    now = [0.0]
    restarts = Restarts(lambda: now[0])
    assert [restarts.wait() for _ in range(9)] == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    restarts.started()
    now[0] = 10.0
    assert restarts.wait() == 0.0


async def test_a_process_that_the_system_does_not_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_FIRST", 0.001)
    failures = [OSError(errno.EMFILE, os.strerror(errno.EMFILE)), BlockingIOError(errno.EAGAIN, "no processes left")]

    def start() -> None:
        if failures:
            raise failures.pop(0)

    await Restarts().start_again(start, "front end 1")
    assert not failures
    assert "front end 1 cannot be started (Too many open files)" in caplog.text

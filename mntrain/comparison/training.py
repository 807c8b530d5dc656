"""Trains the runs of a comparison, each in a process of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import joblib

from mntrain.comparison.plan import PlannedRun

_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """Who is told how the training goes.

    Args:
        started: a run starts, or goes on.
        epoch: epochs of a run that are finished by now.
        ended: a run has ended; the reason if it failed.
    """

    started: Callable[[PlannedRun], None]
    epoch: Callable[[PlannedRun, int], None]
    ended: Callable[[PlannedRun, str | None], None]


@dataclass(kw_only=True)
class _Process:
    run: PlannedRun
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    log_file: Path


def train(runs: Sequence[PlannedRun], *, jobs: int, logs: Path, watcher: Watcher) -> dict[str, str]:
    """Train what is not finished; a run that fails does not stop the others.

    Args:
        runs: in the order they shall start.
        jobs: how many train at the same time; they share the cores.
        logs: folder for what each run prints.
        watcher: told of every start, epoch and end.

    Returns:
        Name of each run that failed → the last line it printed.
    """
    waiting = [run for run in runs if run.state() != "finished"]
    running: list[_Process] = []
    failed: dict[str, str] = {}
    environment = os.environ | {"OMP_NUM_THREADS": _threads(jobs)}

    def stop(number: int, _: object) -> None:
        sys.exit(128 + number)

    # What ends this process ends the trainings too: they would go on unseen. Only the main thread may say so.
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP) if mine}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(waiting.pop(0), logs, environment))
                watcher.started(running[-1].run)
            time.sleep(_POLL_SECONDS)
            for one in list(running):
                code = one.process.poll()
                watcher.epoch(one.run, _epochs(one.run))
                if code is None:
                    continue
                one.log.close()
                running.remove(one)
                reason = None if code == 0 and one.run.state() == "finished" else _reason(one, code)
                if reason is not None:
                    failed[one.run.name] = reason
                watcher.ended(one.run, reason)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in running:
            one.process.terminate()
        for one in running:
            one.process.wait()
            one.log.close()
    return failed


def _start(run: PlannedRun, logs: Path, environment: dict[str, str]) -> _Process:
    command = [sys.executable, "-m", "mntrain", "fit", *run.words]
    if run.state() == "broken_off":
        command.append("--resume")
    file = logs / f"{run.name}.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    log = file.open("wb")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    return _Process(run=run, process=process, log=log, log_file=file)


def _threads(jobs: int) -> str:
    """Threads of each run: what the caller has set, or the cores that this process may use, shared out."""
    return os.environ.get("OMP_NUM_THREADS") or str(max(1, joblib.cpu_count() // jobs))


def _epochs(run: PlannedRun) -> int:
    """Lines of ``metrics.csv`` behind its heading."""
    with suppress(OSError):
        return max(0, len((run.folder / "metrics.csv").read_bytes().splitlines()) - 1)
    return 0


def _reason(one: _Process, code: int) -> str:
    lines = one.log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1].removeprefix("mntrain: ") if lines else "it printed nothing"
    return f"exit code {code}: {last} (all it printed: {one.log_file})"

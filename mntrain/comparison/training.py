"""Train the runs of a comparison, each in a process of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import joblib

from mntrain.comparison.plan import PlannedRun
from mntrain.regular_files import regular

_POLL_SECONDS = 0.2


class Watcher(Protocol):
    """Receiver of the progress of a training."""

    def started(self, run: PlannedRun) -> None:
        """Note that a run starts or goes on."""

    def epoch(self, run: PlannedRun, epoch: int) -> None:
        """Note the number of finished epochs of a run."""

    def ended(self, run: PlannedRun, reason: str | None) -> None:
        """Note that a run has ended, and the reason if it failed."""


@dataclass(kw_only=True)
class _Process:
    run: PlannedRun
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    log_file: Path


def train(runs: Sequence[PlannedRun], *, jobs: int, logs: Path, watcher: Watcher) -> dict[str, str]:
    """Train all unfinished runs; a run that fails does not stop the others.

    Args:
        runs: all runs, in the order of their start.
        jobs: number of runs that train at the same time; they share the cores.
        logs: folder of the output of each run.
        watcher: receives every start, epoch and end.

    Returns:
        Name of each failed run → the last line that it printed.
    """
    waiting = [run for run in runs if run.state() != "finished"]
    running: list[_Process] = []
    failed: dict[str, str] = {}
    environment = os.environ | {"OMP_NUM_THREADS": _threads(jobs)}

    def stop(number: int, _: object) -> None:
        sys.exit(128 + number)

    # A signal that ends this process must end the trainings too. Only the main thread may set handlers.
    in_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP) if in_main_thread}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(waiting.pop(0), logs, environment))
                watcher.started(running[-1].run)
            time.sleep(_POLL_SECONDS)
            for training in list(running):
                code = training.process.poll()
                watcher.epoch(training.run, _epochs(training.run))
                if code is None:
                    continue
                training.log.close()
                running.remove(training)
                reason = None if code == 0 and training.run.state() == "finished" else _reason(training, code)
                if reason is not None:
                    failed[training.run.name] = reason
                watcher.ended(training.run, reason)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for training in running:
            training.process.terminate()
        for training in running:
            training.process.wait()
            training.log.close()
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
    """Return the threads of each run: those that the caller has set, or its share of the cores."""
    return os.environ.get("OMP_NUM_THREADS") or str(max(1, joblib.cpu_count() // jobs))


def _epochs(run: PlannedRun) -> int:
    """Count the finished epochs: the lines of ``metrics.csv`` below its heading."""
    with suppress(OSError):
        return max(0, len(regular(run.folder / "metrics.csv").read_bytes().splitlines()) - 1)
    return 0


def _reason(training: _Process, code: int) -> str:
    lines = training.log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1].removeprefix("mntrain: ") if lines else "it printed nothing"
    return f"exit code {code}: {last} (all it printed: {training.log_file})"

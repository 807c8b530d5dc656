"""Figures of a run while it trains: sums of a phase, progress, one row an epoch as CSV, and TensorBoard events."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from mntrain.atomic_files import write_atomically
from mntrain.terminal_text import plain
from mntrain.training.evaluation import Metric

Row = dict[str, float]
"""Name of each column of ``metrics.csv`` → its value of one epoch."""


class PartFigures(NamedTuple):
    """Figures of one part of a batch, still on the device.

    Args:
        loss: mean loss [], detached.
        score: sum of the scores [], detached.
        examples: of the part.
    """

    loss: Tensor
    score: Tensor
    examples: int


class DivergedStep(NamedTuple):
    """First step of a phase whose loss is not finite.

    Args:
        step: from 1.
        loss: nan or inf.
    """

    step: int
    loss: float


class PhaseFigures:
    """Sums of loss and score over the steps of a phase, and the number of examples.

    Reading a loss back waits for the device to finish the step. So figures stay on the device until :meth:`read`, which
    fetches those of many steps in one transfer and adds them up in float64, in the order of the steps.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._unread: list[tuple[int, PartFigures]] = []
        self._loss, self._score, self._examples = 0.0, 0.0, 0

    def add_step(self, parts: Sequence[PartFigures]) -> None:
        """Append the parts of the next step without reading them."""
        self._steps += 1
        self._unread += [(self._steps, part) for part in parts]

    def read(self) -> DivergedStep | None:
        """Add up the figures of the steps since the last call; they end at the first loss that is not finite.

        Returns:
            The step of that loss; None where all losses are finite.
        """
        if not self._unread:
            return None
        unread, self._unread = self._unread, []
        values = torch.stack([value for _, part in unread for value in (part.loss, part.score)]).tolist()
        for (step, part), loss, score in zip(unread, values[::2], values[1::2], strict=True):
            if not math.isfinite(loss):
                return DivergedStep(step, loss)
            self._loss += loss * part.examples
            self._score += score
            self._examples += part.examples
        return None

    @property
    def sums(self) -> Tensor:
        """Loss sum, score sum and examples of the steps read so far, float64 [3]."""
        return torch.tensor([self._loss, self._score, self._examples], dtype=torch.float64)


def means(sums: Tensor) -> tuple[float, float]:
    """Compute mean loss and score from (loss sum, score sum, examples), float64 [3]."""
    loss, score, examples = sums.tolist()
    return loss / examples, score / examples


class TrainingProgress:
    """Context manager that shows the progress of a run on stderr: a bar on a terminal, a line an epoch elsewhere.

    Args:
        epochs: epochs of the whole run.
        steps: optimiser steps of one epoch.
        metric: name and format of the scores.
        quiet: print nothing (other ranks of a data-parallel run, --json).
    """

    def __init__(self, epochs: int, steps: int, metric: Metric, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        self._epochs, self._steps, self._metric, self._quiet = epochs, steps, metric, quiet
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}", markup=False),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def start_epoch(self, epoch: int) -> None:
        """Begin epoch ``epoch`` (from 1)."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(f"epoch {epoch}/{self._epochs}", total=self._steps, metrics="")

    def advance(self, steps: int, loss: float, score: float) -> None:
        """Show that more optimiser steps are done; ``loss`` and ``score`` are running means of the phase."""
        if self._task is not None:
            self._bar.update(
                self._task, advance=steps, metrics=f"loss {loss:.4f}  {self._metric.name} {self._metric.text(score)}"
            )

    def note(self, line: str) -> None:
        """Print a line between two epochs."""
        if not self._quiet:
            self._console.print(plain(line), soft_wrap=True)

    def end_epoch(self, row: Row, *, best: bool) -> None:
        """Print the line of a finished epoch."""
        if not self._quiet:
            name, text = self._metric.name, self._metric.text
            line = (
                f"epoch {int(row['epoch']):>3}/{self._epochs}  loss {row['train_loss']:.4f}  "
                f"{name} {text(row[f'train_{name}'])}  validation loss {row['validation_loss']:.4f}  "
                f"{name} {text(row[f'validation_{name}'])}{'  (best)' if best else ''}"
            )
            self._console.print(plain(line), soft_wrap=True)


def write_csv(path: Path, history: list[Row]) -> None:
    """Write one line an epoch; the file is replaced whole, so a resumed run leaves no line twice."""

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(history[0]))
            writer.writeheader()
            writer.writerows(history)

    write_atomically(path, write)


class EventWriter:
    """TensorBoard events of a run.

    Args:
        folder: of the event files.
        finished_epochs: events of later epochs, left by a run that was killed, are hidden.
    """

    def __init__(self, folder: Path, finished_epochs: int = 0) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=finished_epochs + 1)

    def add(self, row: Row) -> None:
        """Write one epoch's metrics at step ``row["epoch"]``."""
        for name, value in row.items():
            if name != "epoch":
                self._writer.add_scalar(name.replace("_", "/", 1), value, int(row["epoch"]))
        self._writer.flush()

    def close(self) -> None:
        """Finish the event file."""
        self._writer.close()

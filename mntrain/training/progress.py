"""What a person sees while a run trains: a bar on a terminal, a line an epoch elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mntrain.training.history import Row
from mntrain.training.metric import Metric


class TrainingProgress:
    """Context manager around a run.

    Args:
        epochs: epochs of the whole run.
        steps: optimiser steps of one epoch.
        metric: how scores are called and written.
        console: where to print; a console on stderr by default, so that stdout stays for results.
        quiet: print nothing (other ranks of a data-parallel run, --json).
    """

    def __init__(
        self, epochs: int, steps: int, metric: Metric, *, console: Console | None = None, quiet: bool = False
    ) -> None:
        self._console = console or Console(stderr=True)
        self._epochs, self._steps, self._metric, self._quiet = epochs, steps, metric, quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}"),
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

    def step(self, loss: float, score: float) -> None:
        """One optimiser step is done; ``loss`` and ``score`` are running means of the epoch."""
        if self._task is not None:
            self._bar.update(
                self._task, advance=1, metrics=f"loss {loss:.4f}  {self._metric.name} {self._metric.text(score)}"
            )

    def end_epoch(self, row: Row, *, best: bool) -> None:
        """Print the line of a finished epoch."""
        if not self._quiet:
            name, text = self._metric.name, self._metric.text
            self._console.print(
                f"epoch {int(row['epoch']):>3}/{self._epochs}  loss {row['train_loss']:.4f}  "
                f"{name} {text(row[f'train_{name}'])}  validation loss {row['validation_loss']:.4f}  "
                f"{name} {text(row[f'validation_{name}'])}{'  (best)' if best else ''}",
                highlight=False,
                soft_wrap=True,
            )

"""A comparison from the plan to its files."""

import json
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from mntrain.atomic_files import write_text_atomically
from mntrain.comparison.plan import CompareOptions, PlannedRun, plan_runs
from mntrain.comparison.plot import draw_comparison
from mntrain.comparison.results import Comparison, gather
from mntrain.comparison.table import result_table
from mntrain.comparison.training import Watcher, train
from mntrain.errors import TrainingError
from mntrain.result_folder import result_folder


def compare(options: CompareOptions) -> Comparison:
    """Train what is missing, and write ``compare.json``, ``compare.svg`` and ``compare.md``.

    Finished runs of the same configuration are read, not trained again; broken-off runs go on.

    Raises:
        ConfigError: see :func:`mntrain.comparison.plan.plan_runs`.
        TrainingError: no run has finished, or the result cannot be written.
    """
    runs = plan_runs(options)
    with result_folder(options.folder):
        with _Progress(runs, quiet=options.quiet) as progress:
            failed = train(runs, jobs=options.jobs, logs=options.folder / "logs", watcher=progress.watcher)
        if len(failed) == len(runs):
            raise TrainingError(f"No run has finished; the first one says: {next(iter(failed.values()))}")
        comparison = gather(options, runs, failed)
        _write(comparison)
    return comparison


def _write(comparison: Comparison) -> None:
    folder = comparison.options.folder
    text = json.dumps(comparison.to_json(), indent=2, allow_nan=False) + "\n"
    write_text_atomically(folder / "compare.json", text)
    write_text_atomically(folder / "compare.md", result_table(comparison).markdown())
    write_text_atomically(folder / "compare.svg", draw_comparison(comparison))


class _Progress:
    """A bar a run on a terminal, a line a run elsewhere; on stderr, so that stdout stays for results."""

    def __init__(self, runs: list[PlannedRun], *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        finished = sum(run.state() == "finished" for run in runs)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._total = self._bar.add_task("runs", total=len(runs), completed=finished)
        self._tasks: dict[str, TaskID] = {}
        self._done, self._count = finished, len(runs)

    def __enter__(self) -> "_Progress":
        if self._done:
            self._say(f"{self._done} of {self._count} runs are there already")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    @property
    def watcher(self) -> Watcher:
        """What the training calls."""
        return Watcher(started=self._started, epoch=self._epoch, ended=self._ended)

    def _started(self, run: PlannedRun) -> None:
        self._tasks[run.name] = self._bar.add_task(f"{run.name}, epochs", total=run.config.training.epochs)
        if not self._console.is_terminal:
            self._say(f"{run.name} trains")

    def _epoch(self, run: PlannedRun, epoch: int) -> None:
        self._bar.update(self._tasks[run.name], completed=epoch)

    def _ended(self, run: PlannedRun, reason: str | None) -> None:
        self._bar.remove_task(self._tasks.pop(run.name))
        self._bar.advance(self._total)
        self._done += 1
        self._say(f"{self._done}/{self._count}  {run.name} {'is done' if reason is None else 'failed: ' + reason}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

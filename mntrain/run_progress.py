"""Progress of many runs, for comparisons and cross-validations."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mntrain.terminal_text import plain


class RunProgress:
    """Shows a bar on a terminal and prints a line for each finished run, on stderr: stdout stays for results.

    Args:
        total: number of runs.
        finished: number of runs that had finished before.
        quiet: print nothing.
        noun: word for runs, where something else is counted.
    """

    def __init__(self, total: int, *, finished: int = 0, quiet: bool, noun: str = "runs") -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._runs = self._bar.add_task(noun, total=total, completed=finished)
        self._total, self._finished, self._noun = total, finished, noun

    def __enter__(self) -> Self:
        if self._finished:
            self.say(f"{self._finished} of {self._total} {self._noun} are there already")
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def finish_run(self, text: str) -> None:
        """Count a finished run, and print a line about it."""
        self._finished += 1
        self._bar.advance(self._runs)
        self.say(f"{self._finished}/{self._total}  {text}")

    def advance(self, count: int) -> None:
        """Count parts of the work, without a line."""
        self._finished += count
        self._bar.advance(self._runs, count)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(plain(text), soft_wrap=True)

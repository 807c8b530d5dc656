"""Progress of a comparison."""

from rich.progress import TaskID

from mntrain.comparison.plan import PlannedRun
from mntrain.run_progress import RunProgress
from mntrain.terminal_text import printable
from mntrain.training.run_record import stored_record_lines


class ComparisonProgress(RunProgress):
    """Shows a bar for each training run too.

    Args:
        runs: all runs of the comparison.
        quiet: print nothing.
    """

    def __init__(self, runs: list[PlannedRun], *, quiet: bool) -> None:
        super().__init__(len(runs), finished=sum(run.state() == "finished" for run in runs), quiet=quiet)
        self._epochs: dict[str, TaskID] = {}
        self._data_is_told = False

    def started(self, run: PlannedRun) -> None:
        """Add the bar of a run that starts or goes on."""
        self._epochs[run.name] = self._bar.add_task(printable(f"{run.name}, epochs"), total=run.config.training.epochs)
        if not self._console.is_terminal:
            self.say(f"{run.name} trains")

    def epoch(self, run: PlannedRun, epoch: int) -> None:
        """Show the number of finished epochs of a run."""
        self._bar.update(self._epochs[run.name], completed=epoch)
        if not self._data_is_told:
            # The first run to have loaded the data says what it holds.
            for line in stored_record_lines(run.folder):
                self._data_is_told = True
                self.say(line)

    def ended(self, run: PlannedRun, reason: str | None) -> None:
        """Remove the bar of a run that has ended; ``reason`` is None unless it failed."""
        self._bar.remove_task(self._epochs.pop(run.name))
        self.finish_run(f"{run.name} {'is done' if reason is None else 'failed: ' + reason}")

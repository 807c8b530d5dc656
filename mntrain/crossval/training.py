"""Train the runs of a cross-validation, several at the same time where asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed

from mntrain.crossval.plan import FoldRun
from mntrain.errors import MnTrainError
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions
from mntrain.training.stored_run import check_same_run, read_metrics, run_state


@dataclass(frozen=True, kw_only=True)
class FoldOutcome:
    """Outcome of a run.

    Args:
        run: the run.
        result: content of ``metrics.json``; None for a failed run.
        reason: reason of the failure; empty without one.
        reused: True for a run that had finished before.
    """

    run: FoldRun
    result: dict[str, Any] | None
    reason: str = ""
    reused: bool = False


def train(runs: Sequence[FoldRun], *, jobs: int, ended: Callable[[FoldOutcome], None]) -> list[FoldOutcome]:
    """Train unfinished runs and go on with broken-off ones; a run that fails does not stop the others.

    Args:
        runs: all runs.
        jobs: number of runs that train at the same time; a single one trains in this process.
        ended: receives the outcome of every run that has ended.

    Returns:
        Outcomes in the order of ``runs``.

    Raises:
        ConfigError: a run of that name had another configuration or other data.
    """
    for run in runs:
        check_same_run(run.folder, run.config, run.sha256)
    outcomes: dict[str, FoldOutcome] = {}
    # Short runs cost less than the start of an interpreter, so workers stay for many of them.
    for outcome in Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_train)(run) for run in runs):
        outcomes[outcome.run.label] = outcome
        ended(outcome)
    return [outcomes[run.label] for run in runs]


def _train(run: FoldRun) -> FoldOutcome:
    state = run_state(run.folder)
    try:
        if state == "finished":
            return FoldOutcome(run=run, result=read_metrics(run.folder), reused=True)
        options = FitOptions(runs=run.folder.parent, resume=state == "broken_off", quiet=True)
        return FoldOutcome(run=run, result=fit(run.config, options))
    except MnTrainError as error:
        return FoldOutcome(run=run, result=None, reason=str(error))

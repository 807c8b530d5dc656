"""Trains the runs of a cross-validation, several at the same time where asked for."""

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
class Outcome:
    """What became of a run.

    Args:
        run: the run.
        result: its ``metrics.json``; None where it failed.
        reason: why it failed; empty where it did not.
        reused: it was there already.
    """

    run: FoldRun
    result: dict[str, Any] | None
    reason: str = ""
    reused: bool = False


def train(runs: Sequence[FoldRun], *, jobs: int, ended: Callable[[Outcome], None]) -> list[Outcome]:
    """Train what is not finished, go on with what was broken off; a run that fails does not stop the others.

    Args:
        jobs: how many train at the same time; with one, they train in this process.
        ended: told of every run that has ended.

    Returns:
        What became of each of ``runs``, in their order.

    Raises:
        ConfigError: a run of that name had another configuration or other data.
    """
    for run in runs:
        check_same_run(run.folder, run.config, run.sha256)
    found: dict[str, Outcome] = {}
    # Short runs cost less than the start of an interpreter, so workers stay for many of them.
    for outcome in Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_train)(run) for run in runs):
        found[outcome.run.label] = outcome
        ended(outcome)
    return [found[run.label] for run in runs]


def _train(run: FoldRun) -> Outcome:
    state = run_state(run.folder)
    try:
        if state == "finished":
            return Outcome(run=run, result=read_metrics(run.folder), reused=True)
        options = FitOptions(runs=run.folder.parent, resume=state == "broken_off", quiet=True)
        return Outcome(run=run, result=fit(run.config, options))
    except MnTrainError as error:
        return Outcome(run=run, result=None, reason=str(error))

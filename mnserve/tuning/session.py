"""Work of ``mnserve tune``: measure, write the configuration, report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mnserve.atomic_files import check_writable
from mnserve.bench.feeds import check_shapes_used, input_rows, random_feeds
from mnserve.bench.machine import describe_machine
from mnserve.bench.report import Report
from mnserve.bench.termination import signals_unwind
from mnserve.errors import BenchError, MnServeError, TuningError
from mnserve.models.opened_model import OpenedModel
from mnserve.object_store.local_copy import local_copy
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import CONFIG_NAME
from mnserve.text.terminal import plain_lines
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.candidate_repository import CandidateRepository
from mnserve.tuning.configuration import current_candidate
from mnserve.tuning.measurement import ServerMeasurement
from mnserve.tuning.plot import draw
from mnserve.tuning.publishing import publish, read_text
from mnserve.tuning.result import TuneResult
from mnserve.tuning.search import Stage, search
from mnserve.tuning.settings import TuneSettings
from mnserve.tuning.space import Space, search_space
from mnserve.tuning.table import print_result


def tune(settings: TuneSettings) -> int:
    """Measures, writes ``config.pbtxt`` if another configuration is better, and reports.

    Returns:
        0; every fault is an MnServeError.

    Raises:
        MnServeError: The model cannot be measured, no configuration keeps the bound, or a file cannot be written.
            Faults are reported before the measurement where possible.
    """
    with local_copy(settings.repository, settings.store, only=[settings.model]) as root:
        return _tune(settings, root)


def _tune(settings: TuneSettings, root: Path) -> int:
    folder = root / settings.model
    report = Report.to(settings.json, settings.plot, [folder])
    with OpenedModel(root, settings.model, settings.engine_options) as model:
        config = model.config
    current = current_candidate(config)
    if not settings.dry_run:
        check_writable(folder / CONFIG_NAME)
    text = read_text(folder)
    rows = input_rows(config, settings.shapes)
    check_shapes_used(settings.shapes, [rows])
    _check_rows(settings, config)
    space = search_space(config, current, settings.limits)
    # SIGTERM unwinds as Ctrl-C does, so that no server and no temporary repository stays behind.
    with signals_unwind() as arm, CandidateRepository.of(root, settings.model) as repository:
        arm()
        measure = ServerMeasurement(
            repository=repository,
            arguments=settings.server_arguments,
            text=text,
            current=current,
            feeds=random_feeds(config, rows, settings.rows, settings.seed),
            datatypes={name: datatype for name, (datatype, _) in rows.items()},
            loads=settings.loads,
            seconds=settings.seconds,
            least_calls=settings.goal.least_calls,
            timeout=settings.timeout,
        )
        with _progress(settings) as on_trial:
            outcome = search(current, space, measure, settings.goal, repeats=settings.repeats, on_trial=on_trial)
        new_text = None if outcome.chosen in (None, current) else measure.configuration(outcome.chosen)
        result = TuneResult(
            settings=settings,
            machine=describe_machine(),
            outcome=outcome,
            remarks=tuple(_remarks(settings, config, space)),
            text=new_text,
        )
        failure: MnServeError | None = None
        if new_text is not None and not settings.dry_run:
            try:
                backup = publish(folder, text, new_text, repository, settings.engine_options)
                result = result.after_writing(folder / CONFIG_NAME, backup)
            except MnServeError as error:  # the measurements are reported all the same
                failure = error
    _deliver(result, report)
    if failure is not None:
        raise failure
    if outcome.chosen is None:
        raise TuningError(f"{result.verdict}; {CONFIG_NAME} is left as it is")
    return 0


def _deliver(result: TuneResult, report: Report) -> None:
    def show(console: Console) -> None:
        print_result(result, console)
        if result.text is not None and result.settings.dry_run:
            console.print(plain_lines(f"\n{CONFIG_NAME} would say:\n\n{result.text}"), soft_wrap=True)

    report.deliver(result.to_json(), lambda: draw(result), show)


def _check_rows(settings: TuneSettings, config: ModelConfig) -> None:
    name, rows, max_rows = config.name, settings.rows, config.max_batch_size
    if not max_rows and rows > 1:
        raise BenchError(f"--rows is {rows}, and model '{name}' has no batch dimension; leave --rows out")
    if max_rows and rows > max_rows:
        raise BenchError(
            f"--rows is {rows}, and model '{name}' takes at most {max_rows} rows in a request; lower it, or raise "
            f"max_batch_size in its {CONFIG_NAME} first"
        )


def _remarks(settings: TuneSettings, config: ModelConfig, space: Space) -> list[str]:
    if not config.max_batch_size:
        return ["The model has no batch dimension: threads and instances were searched."]
    if len(space.batches) > 1 or settings.allow_smaller_batches:
        return []
    return [
        f"max_batch_size stays {config.max_batch_size}: nothing larger is allowed and filled by these callers, and "
        "less would refuse requests that are accepted now (--allow-smaller-batches tries it)."
    ]


@contextmanager
def _progress(settings: TuneSettings) -> Iterator[Callable[[Stage, int, Candidate], None]]:
    """Shows a progress line on a terminal, which is redrawn between measurements only."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    names = {"search": "searching", "final": f"{settings.repeats} rounds of the best"}
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=None)

        def on_trial(stage: Stage, done: int, candidate: Candidate) -> None:
            progress.update(task, description=f"{names[stage]}, measurement {done + 1}: {candidate.label}")
            progress.refresh()

        yield on_trial

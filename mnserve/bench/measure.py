"""Measurement of one model or two, from settings to result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mnserve.bench.feeds import Rows, check_shapes_used, input_rows, random_feeds
from mnserve.bench.machine import describe_machine
from mnserve.bench.results import BatchSizeResult, BenchResult, ModelNote, summarise
from mnserve.bench.settings import BenchSettings
from mnserve.bench.targets import BenchTarget, open_targets
from mnserve.bench.timing import Call, interleave
from mnserve.engines.cpu import available_cpus

_FEW_CALLS = 100


def measure(
    settings: BenchSettings, *, on_round: Callable[[int, int], None] = lambda _batch, _round: None
) -> BenchResult:
    """Loads the models, times them at every batch size, and summarises.

    Args:
        settings: Settings of the command line.
        on_round: Called after each round with the batch size and the rounds done at that size.

    Raises:
        MnServeError: A model, the server or an option cannot be used. All batch sizes are checked before the first is
            timed.
    """
    with open_targets(settings) as targets:
        rows = [input_rows(target.config, settings.shapes) for target in targets]
        check_shapes_used(settings.shapes, rows)
        calls = {batch: _calls(targets, rows, batch, settings.seed) for batch in settings.batches}
        results = []
        for batch, pair in calls.items():
            slots = interleave(pair, settings.plan, on_round=lambda done, batch=batch: on_round(batch, done))  # type: ignore[misc]
            results.append(summarise(batch, slots))
        models = [_note(target, row) for target, row in zip(targets, rows, strict=True)]
    other = models[1] if len(models) > 1 else None
    threads = None if settings.url is not None else settings.threads or available_cpus()
    return BenchResult(
        settings=settings,
        machine=describe_machine(),
        threads=threads,
        model=models[0],
        against=other,
        batches=tuple(results),
        notes=tuple(_notes(settings, models, results)),
    )


def _calls(targets: Sequence[BenchTarget], rows: Sequence[Rows], batch: int, seed: int) -> list[Call]:
    return [
        target.call(
            random_feeds(target.config, row, batch, seed),
            {name: datatype for name, (datatype, _) in row.items()},
        )
        for target, row in zip(targets, rows, strict=True)
    ]


def _note(target: BenchTarget, rows: Rows) -> ModelNote:
    parameters = {
        name: value.string_value
        for name, value in sorted(target.config.parameters.items())
        if name in ("mn.family", "mn.form")
    }
    return ModelNote(
        name=target.config.name,
        version=target.version,
        file=target.file,
        inputs=dict(rows),
        parameters=parameters,
    )


def _notes(settings: BenchSettings, models: Sequence[ModelNote], results: Sequence[BatchSizeResult]) -> list[str]:
    notes = []
    if files := [_file(model) for model in models if model.file is not None]:
        notes.append(f"Timed: {' and '.join(files)}.")
    if len(models) > 1 and models[0].inputs != models[1].inputs:
        inputs = " and ".join(f"{_inputs(model)} for {model.name}" for model in models)
        notes.append(f"The models take different inputs ({inputs}), which is part of the ratio.")
    notes += [
        f"{model.name} gets made-up numbers as its own input; {models[0].name} computes that from its own, where it is "
        "made from it."
        for model in models[1:]
        if model.file is not None and not model.version
    ]
    short_batches = [result.batch for result in results if result.model.calls < _FEW_CALLS]
    if short_batches:
        notes.append(
            f"Fewer than {_FEW_CALLS} calls at batch {', '.join(map(str, short_batches))}: p99 is close to the slowest "
            "call; raise --seconds for a better one."
        )
    if settings.against is not None and settings.rounds % 2:
        notes.append(f"{settings.rounds} rounds are odd, so one order was timed once more than the other.")
    return notes


def _file(model: ModelNote) -> str:
    return f"{model.name}/{model.version}/{model.file}" if model.version else str(model.file)


def _inputs(model: ModelNote) -> str:
    return ", ".join(f"{name} {datatype} {list(dims)}" for name, (datatype, dims) in model.inputs.items())

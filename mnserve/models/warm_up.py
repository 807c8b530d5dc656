"""Warm-up before the first request: it allocates memory, selects kernels, and shows whether rows may be joined.

A warm-up batch grows from one row. It stops where the next batch would take too much time or memory. A model that
cannot run on made-up inputs is served all the same: nobody has to send such inputs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mnserve.codec.signature import RequestSignature
from mnserve.engines.base import Engine
from mnserve.errors import EngineLoadError, MnServeError
from mnserve.execution.batch import execute
from mnserve.execution.run_watch import RunWatch
from mnserve.models.made_up_inputs import RARE, Style, made_up_inputs
from mnserve.models.row_trial import JOINED, RowTrial
from mnserve.models.trial_runs import TrialRuns
from mnserve.models.warm_up_plan import WarmUp, WarmUpPlan
from mnserve.models.warm_up_samples import Sample

_log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]


def warm_up(engine: Engine, rules: RequestSignature, plan: WarmUpPlan, samples: Iterable[Sample] = ()) -> WarmUp:
    """Runs the samples of the configuration, or made-up inputs where it has none.

    Args:
        engine: The engine.
        rules: Rules for requests.
        plan: What is to be run.
        samples: Samples of the configuration.

    Raises:
        EngineLoadError: A sample of the configuration fails; the message names it.
    """
    sampled = run_samples(engine, rules, samples, plan.watch)
    runs = TrialRuns(engine, rules, plan.limits, plan.watch)
    trial = RowTrial(runs, plan)
    if sampled is not None:
        if rules.max_batch_size < 2:
            trial.note(lambda number: sampled.rows[0], sampled.outputs)
        else:
            rows = sampled.rows
            trial.compare(lambda number: rows[number % len(rows)], [lambda number: rows[(number + 1) % len(rows)]])
        return trial.outcome("the samples of config.pbtxt")
    for inputs in made_up_inputs(rules):
        if trial.probe is not None and not runs.has_time(4 * JOINED[0]):
            break
        if reason := runs.input_obstacle(inputs.nbytes) or runs.obstacle(0, 0):
            trial.stop(reason)
            break
        if inputs.style is Style.ZEROS and trial.probe is not None:
            continue
        others = [replace(inputs, style=style).row for style in (Style.WIDE, Style.SMALL) if style is not inputs.style]
        trial.compare(inputs.row, others, [replace(inputs, style=style).row for style in RARE])
        if trial.settled:
            break
    trial.finish()
    return trial.outcome("made-up inputs")


@dataclass(frozen=True, kw_only=True)
class SampleRuns:
    """What is kept of the samples.

    Attributes:
        rows: First rows of the samples that have the shapes of the very first, at most as many as are joined.
        outputs: Answer to the first sample.
    """

    rows: Sequence[Tensors]
    outputs: Tensors


def run_samples(
    engine: Engine, rules: RequestSignature, samples: Iterable[Sample], watch: RunWatch
) -> SampleRuns | None:
    """Runs the samples of the configuration; None where there are none.

    Raises:
        EngineLoadError: A sample fails; the message names it.
    """
    rows: list[Tensors] = []
    outputs: dict[str, Array] = {}
    for sample in samples:
        _log.info("model '%s': warm-up sample '%s'", rules.model, sample.name)
        try:
            for _ in range(sample.runs):
                with watch.running():
                    result = execute(engine, [sample.work], sample.work.feeds, batched=rules.max_batch_size > 0)
                outputs = outputs or dict(zip(sample.work.outputs, result.outputs[0], strict=True))
        except (MnServeError, MemoryError) as error:
            raise EngineLoadError(
                f"model '{rules.model}' fails on the warm-up sample '{sample.name}' of config.pbtxt: "
                f"{str(error) or 'there is no memory for it'}"
            ) from error
        rows += _like(rows, _single_rows(sample, rules))[: JOINED[-1] - len(rows)]
    return SampleRuns(rows=rows, outputs=outputs) if rows else None


def _single_rows(sample: Sample, rules: RequestSignature) -> list[Tensors]:
    """Takes the first rows out of a sample, with the defaults of the model; one without batches gets it whole."""
    if rules.max_batch_size == 0:
        return [sample.work.feeds]
    feeds = sample.work.feeds
    return [
        {rule.name: feeds[rule.name][number : number + 1].copy() for rule in rules.inputs}
        for number in range(min(sample.work.rows, JOINED[-1]))
    ]


def _like(rows: Sequence[Tensors], further: Sequence[Tensors]) -> list[Tensors]:
    """Keeps the rows that have the shapes of the first of all."""

    def shapes(row: Tensors) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in row.items()}

    first = shapes([*rows, *further][0])
    return [row for row in further if shapes(row) == first]

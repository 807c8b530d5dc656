"""Summary of a run's data, and the lines about it that are printed before training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from mntrain.data.summary.lines import summary_lines
from mntrain.data.summary.record import RunRecord, TrainedStartEntry, TrainingEntry
from mntrain.data.summary.summarize import summarize
from mntrain.regular_files import read_text
from mntrain.terminal_text import plain
from mntrain.training.run_folder import DATA_FILE
from mntrain.training.run_length import short_run_advice, steps_of_an_epoch
from mntrain.training.setup import RunSetup


def summarize_run(
    setup: RunSetup, rates: Mapping[str, float], trained_start: Mapping[str, Any] | None = None
) -> RunRecord:
    """Summarize the data of a run, the shape of the model's inputs, the steps of an epoch, and how it is trained.

    Args:
        setup: configuration and data.
        rates: factors on the learning rate that were found from the length of the run.
        trained_start: entry of the artifact that the model starts from; empty or None without one.
    """
    training, examples = setup.config.training, len(setup.data.train)
    found = summarize(setup.data, setup.config.data)
    advice = short_run_advice(training, examples)
    if advice is not None:
        found["warnings"].append(advice)
    entry = TrainingEntry(
        batch_size=min(training.batch_size, examples),
        steps_per_epoch=steps_of_an_epoch(training, examples),
        epochs=training.epochs,
        rates=dict(rates),
    )
    if trained_start:
        entry["start"] = TrainedStartEntry(**trained_start)  # type: ignore[typeddict-item]
    return RunRecord(**found, input=list(setup.input_shape), training=entry)


def print_record(record: RunRecord) -> None:
    """Print the short form of a summary on stderr: a line for each fact, and one for each warning."""
    console = Console(stderr=True)
    for line in record_lines(record):
        console.print(plain(line), soft_wrap=True)


def record_lines(record: RunRecord) -> list[str]:
    """Write the short form of a summary, its warnings last."""
    return [*summary_lines(record), *warning_lines(record)]


def stored_record_lines(folder: Path) -> list[str]:
    """Write the short form of the summary of the run in ``folder``; nothing where there is none that can be read."""
    try:
        return record_lines(json.loads(read_text(folder / DATA_FILE)))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def warning_lines(record: RunRecord) -> Sequence[str]:
    """Write the warnings of a summary, one a line."""
    return [f"warning: {sentence}" for sentence in record["warnings"]]

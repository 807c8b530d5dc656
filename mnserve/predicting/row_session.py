"""Work of ``mnserve predict`` with a model of rows: predict every row of every table, report."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO

from mnserve.atomic_files import write_atomically
from mnserve.errors import OutputError, RowFileError, SettingsError
from mnserve.predicting.models import CalledModel
from mnserve.predicting.row_answers import answers_of
from mnserve.predicting.row_file import open_rows
from mnserve.predicting.row_predictor import RowPredictor
from mnserve.predicting.row_report import JsonReport, RowReport, TableReport
from mnserve.predicting.settings import PredictSettings
from mnserve.repository.row_layout import TableLayout

_SHOWN: Final = 20
"""Most rows of a table that are named one by one on standard error."""


def predict_rows(
    settings: PredictSettings, model: CalledModel, layout: TableLayout, say: Callable[[str], None]
) -> tuple[int, int]:
    """Predicts every row of every table.

    Args:
        settings: Settings of the command line.
        model: The model.
        layout: Columns of the model.
        say: Writes a sentence to standard error.

    Returns:
        Rows that were predicted, and rows or tables that were not.

    Raises:
        SettingsError: An option is about images.
        MnServeError: The model lacks outputs, or the file of the answers cannot be written.
    """
    _check_options(settings, model.config.name)
    answers = answers_of(model.config, layout, model.labels, top=settings.top, explain=settings.explain)
    predictor = RowPredictor(model, layout, answers)
    stream: TextIO = sys.stdout if settings.output is None else io.StringIO()
    report: RowReport
    report = JsonReport(stream) if settings.json else TableReport(stream, answers.columns, stream.isatty())
    predicted, failed = 0, 0
    for name in settings.files:
        try:
            with open_rows(Path(name), layout.columns) as file:
                report.begin(file)
                wrong = 0
                for outcome in predictor.predict(file):
                    report.add(outcome)
                    predicted += outcome.answer is not None
                    if outcome.answer is None:
                        wrong += 1
                        if wrong <= _SHOWN:
                            say(f"error: {name}, row {outcome.row.number}: {outcome.reason}")
                failed += wrong
                if wrong > _SHOWN:
                    say(f"error: {name}: {wrong - _SHOWN} further rows are not predicted either (--json has reasons)")
        except RowFileError as error:
            failed += 1
            say(f"error: {error}")
    report.end()
    if settings.output is not None and isinstance(stream, io.StringIO):
        _write(Path(settings.output), stream.getvalue().encode())
    for note in predictor.notes:
        say(f"note: {note}")
    return predicted, failed


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _check_options(settings: PredictSettings, model: str) -> None:
    for option, given in (
        ("--resize", settings.resize),
        ("--neighbors", settings.neighbors is not None),
        ("--html", settings.html is not None),
    ):
        if given:
            raise SettingsError(f"{option} is about images, and model '{model}' takes rows of a table; leave it out")
    if settings.output is None:
        return
    output = Path(settings.output)
    for name in settings.files:
        if os.path.exists(name) and os.path.exists(output) and os.path.samefile(name, output):
            raise OutputError(f"--output {output} is one of the tables to read, {name}; give it another name")

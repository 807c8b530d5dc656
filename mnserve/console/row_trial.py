"""Predictions of rows that the page sends: a table of text, or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any, Final

from mnserve.console.trial_input import MAX_VALUES
from mnserve.errors import RowFileError
from mnserve.predicting.models import CalledModel
from mnserve.predicting.row_answers import answers_of
from mnserve.predicting.row_file import TableText, open_rows
from mnserve.predicting.row_predictor import RowOutcome, RowPredictor
from mnserve.repository.row_layout import TableLayout
from mnserve.text.json_text import parse_json
from mnserve.text.names import is_text

MAX_ROWS: Final = 1000
"""Most rows of one prediction."""
MAX_CELLS: Final = 100_000
"""Most cells of one prediction, with those that a row of JSON leaves out: the answer repeats them."""
_NAME: Final = "the rows"
_REMEDY: Final = ", the most that the page takes; predict the file with `mnserve predict`"
_MARKS: Final = ",;\t\n\r[{"
"""Characters that begin a value. They are counted again, since the body may spell them as "\\u002c"."""
_TOP: Final = 5


def predict_rows(
    model: CalledModel, layout: TableLayout, text: str, *, explain: bool, check: Callable[[], None]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Predicts rows with one model.

    Args:
        model: The model.
        layout: Its columns.
        text: A table with names in its first line, or JSON: a list of objects, one object, or lists of values in the
            order of the model's columns.
        explain: Tell the neighbors, and the answer without adaptation.
        check: Called between rows; raises an error once nobody waits for them.

    Returns:
        A result for each row, in values of JSON, and notes as sentences.

    Raises:
        MnServeError: The table cannot be used, or has too many rows or cells.
    """
    answers = answers_of(model.config, layout, model.labels, top=_TOP, explain=explain)
    predictor = RowPredictor(model, layout, answers)
    if sum(text.count(mark) for mark in _MARKS) > MAX_VALUES:
        raise RowFileError(f"{_NAME} have more than {MAX_VALUES:,} values{_REMEDY}")
    text = _as_table(text, layout) if text.lstrip()[:1] in ("[", "{") else text
    if not is_text(text):
        raise RowFileError(f"{_NAME} have characters that are no text in UTF-8; leave them out")
    table = TableText(name=_NAME, text=text)
    with open_rows(table, layout.columns) as file:
        _check_size(sum(1 for _ in zip(range(MAX_ROWS + 1), file.rows, strict=False)), len(file.columns))
    results = []
    with open_rows(table, layout.columns) as file:
        for outcome in predictor.predict(file):
            results.append(_result(outcome, file.columns))
            check()
    return results, predictor.notes


def _check_size(rows: int, columns: int) -> None:
    if rows > MAX_ROWS:
        raise RowFileError(f"{_NAME} are more than {MAX_ROWS:,}{_REMEDY}")
    if rows * columns > MAX_CELLS:
        raise RowFileError(
            f"{_NAME} have {rows:,} x {columns:,} = {rows * columns:,} cells, more than {MAX_CELLS:,}{_REMEDY}"
        )


def _result(outcome: RowOutcome, columns: tuple[str, ...]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "row": outcome.row.number,
        "cells": dict(zip(columns, outcome.row.cells, strict=False)),
    }
    return plain | ({"error": outcome.reason} if outcome.answer is None else outcome.answer.to_json())


def _as_table(text: str, layout: TableLayout) -> str:
    """Writes rows of JSON as a table.

    Raises:
        RowFileError: They are no rows.
    """
    try:
        rows = parse_json(text, strict=True)
    except ValueError as error:
        raise RowFileError(f"{_NAME} are no JSON: {error}") from None
    rows = [rows] if isinstance(rows, dict) else rows
    if rows and not isinstance(rows[0], (dict, list)):
        rows = [rows]
    if not rows:
        raise RowFileError(f"{_NAME} are empty; give an object for each row")
    _check_size(len(rows), 0)
    columns = list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row)) or layout.columns
    _check_size(len(rows), len(columns))  # before the table is made: each row gets a cell for the names of all others
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            row = [row.get(name) for name in columns]
        if not isinstance(row, list) or len(row) != len(columns):
            raise RowFileError(f"row {number} of {_NAME} has to be an object, or a list of {len(columns)} values")
        writer.writerow([_cell(value, number) for value in row])
    return stream.getvalue()


def _cell(value: Any, number: int) -> str:
    if isinstance(value, (dict, list)):
        raise RowFileError(f"row {number} of {_NAME} has a list or an object in a cell; give a text or a number")
    return (
        {None: "", True: "true", False: "false"}[value]
        if value is None or value is True or value is False
        else str(value)
    )

"""Rows from the page: tables and JSON, with the answers of the model in this process."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from row_models import write_row_model

from mnserve.console.row_trial import MAX_CELLS, MAX_ROWS, predict_rows
from mnserve.errors import RowFileError
from mnserve.http.errors import ClientLeftError
from mnserve.models.opened_model import OpenedModel
from mnserve.repository.row_layout import row_layout

Predict = Callable[..., tuple[list[dict[str, Any]], tuple[str, ...]]]


@pytest.fixture
def predict(onnx_model: Callable[..., Path]) -> Any:
    """Predicts text with the model of ``row_models``."""
    folder = write_row_model(onnx_model)
    with OpenedModel(folder.parent, folder.name) as model:
        layout = row_layout(model.config)
        assert layout is not None
        yield partial(predict_rows, model, layout, explain=False, check=lambda: None)


@pytest.mark.parametrize(
    "text",
    [
        "age,income,color\n1,2,red\n",
        "\ufeffcolor\tincome\tage\r\nred\t2\t1\r\n",
        '{"age": 1, "income": 2, "color": "red"}',
        '[{"age": 1, "income": 2, "color": "red", "id": true}]',
        '[[1, 2, "red"]]',
        ' [1, 2, "red"]',
    ],
)
def test_one_row_may_be_written_in_many_ways(predict: Predict, text: str) -> None:
    (result,), notes = predict(text)
    assert result["values"] == {"y": 221.0, "z": -221.0}
    assert notes == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("age,income\n1,2\n", "has no 'color'"),
        ("", "is empty"),
        ("[]", "are empty"),
        ("[{]", "are no JSON"),
        ('[{"age": [1], "income": 2, "color": "red"}]', "a list or an object in a cell"),
        ("[[1, 2]]", "a list of 3 values"),
        ("[[1, 2, 3], 4]", "a list of 3 values"),
        ('{"age": "\\ud800", "income": 2, "color": "red"}', "no text in UTF-8"),
        (f"age,income,color\n{'1,2,red' * 30_000}", None),
        ("a" * 200_000, "cannot be read"),
        ("age,income,color\n" + "1,2,red\n" * (MAX_ROWS + 1), "more than 1,000"),
        ("[" + ", ".join(['{"age": 1}'] * (MAX_ROWS + 1)) + "]", "more than 1,000"),
        ("[" + ", ".join(f'{{"c{place}": 1}}' for place in range(900)) + "]", "900 x 900 = 810,000 cells"),
        (f"age,income,color{',more' * 997}\n" + f"1,2,red{',0' * 997}\n" * 101, "101 x 1,000 = 101,000 cells"),
        (";" * 500_001, "more than 500,000 values"),
    ],
)
def test_what_is_no_table_has_a_reason(predict: Predict, text: str, reason: str | None) -> None:
    if reason is None:
        (result,), _ = predict(text)
        assert "cells" in result["error"]
        return
    with pytest.raises(RowFileError, match=reason):
        predict(text)


def test_the_most_rows_are_taken(predict: Predict) -> None:
    results, _ = predict("age,income,color\n" + "1,2,red\n" * MAX_ROWS)
    assert len(results) == MAX_ROWS
    assert all(result["values"]["y"] == 221.0 for result in results)


def test_names_of_other_rows_are_counted_before_cells_are_made_for_them(predict: Predict) -> None:
    rows = [{f"{place:x}": 1} for place in range(MAX_ROWS)]
    tracemalloc.start()
    try:
        with pytest.raises(RowFileError, match=f"more than {MAX_CELLS:,}"):
            predict(json.dumps(rows))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # the table has a million cells
    finally:
        tracemalloc.stop()


def test_rows_end_once_nobody_waits_for_them(predict: Predict) -> None:
    seen = 0

    def check() -> None:
        nonlocal seen
        seen += 1
        if seen == 10:
            raise ClientLeftError

    with pytest.raises(ClientLeftError):
        predict("age,income,color\n" + "1,2,red\n" * MAX_ROWS, check=check)
    assert seen == 10

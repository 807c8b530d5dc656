"""New rows are laid out as a model was trained on them: by name, with unknown categories and missing numbers told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mntrain.data.reading.new_rows import LaidOutRows, lay_out_rows
from mntrain.data.reading.table_reading import read_table
from mntrain.data.row_layout import RowLayout
from mntrain.errors import DataError

LAYOUT = RowLayout(
    numbers=("a", "b"),
    categories={"color": ("blue", "red"), "code": ("1", "2", "10")},
    imputed=True,
    targets=("y",),
    labels=None,
)
ROWS = {
    "code": [10, 2, 7],
    "y": [1.0, 2.0, 3.0],
    "b": [1.5, None, 2.5],
    "color": ["red", "green", None],
    "a": [1, 2, 3],
}


def lay_out(columns: dict[str, Any], layout: RowLayout = LAYOUT, *, labelled: bool = False) -> LaidOutRows:
    return lay_out_rows(pa.table(columns), layout, where="the rows", labelled=labelled)


def test_columns_are_found_by_name_and_others_are_told() -> None:
    found = lay_out(ROWS | {"more": ["x"] * 3})
    nan = float("nan")
    np.testing.assert_array_equal(found.inputs, [[1, 1.5, 1, 2], [2, nan, -1, 1], [3, 2.5, -1, -1]])
    assert found.targets is None
    told = {column.name: (column.role, column.missing, column.note) for column in found.account.columns}
    assert told["b"] == ("feature", 1, "")
    assert told["color"] == ("feature", 1, "1 row(s) hold values that no training row had: green")
    assert told["code"] == ("feature", 0, "1 row(s) hold values that no training row had: 7")
    assert (told["more"][0], told["y"][0]) == ("excluded", "excluded")


def test_targets_are_taken_where_asked() -> None:
    assert lay_out(ROWS, labelled=True).labelled().targets.tolist() == [1.0, 2.0, 3.0]
    several = lay_out(ROWS, replace(LAYOUT, numbers=("b",), targets=("y", "a")), labelled=True)
    assert several.labelled().targets.tolist() == [[1, 1], [2, 2], [3, 3]]
    classes = replace(LAYOUT, targets=("kind",), labels=("False", "True"))
    assert lay_out(ROWS | {"kind": [True, False, True]}, classes, labelled=True).labelled().targets.tolist() == [
        1,
        0,
        1,
    ]
    classes = replace(LAYOUT, targets=("kind",), labels=("7", "12"))
    assert lay_out(ROWS | {"kind": [12, 7, 7]}, classes, labelled=True).labelled().targets.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("change", "layout", "words"),
    [
        ({"a": None}, LAYOUT, r"has no column 'a', which the model takes; it has the columns code, y, b, color"),
        ({"y": None}, LAYOUT, r"has no column 'y'"),
        ({"y": [1.0, None, 2.0]}, LAYOUT, r"'y' has no value.*row 2.*label those rows"),
        ({"a": ["1", "x", "2"]}, LAYOUT, r"'a' holds no numbers \(such as 'x' in row 2\)"),
        ({"a": [1.0, float("inf"), 2.0]}, LAYOUT, r"'a' is inf in row 2"),
        ({}, replace(LAYOUT, imputed=False), r"'b' has no value.*row 2.*trained without missing values"),
        (
            {"y": ["p", "q", "r"]},
            replace(LAYOUT, labels=("p", "q")),
            r"classes that the model does not know: r; it knows",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused(change: dict[str, Any], layout: RowLayout, words: str) -> None:
    columns = {name: values for name, values in {**ROWS, **change}.items() if values is not None}
    with pytest.raises(DataError, match=words):
        lay_out(columns, layout, labelled=True)


def laid_out(file: Path, layout: RowLayout) -> LaidOutRows:
    """Rows of a file whose categories and classes are read as texts."""
    table = read_table(file, frozenset({*layout.categories, *layout.targets})).table
    return lay_out_rows(table, layout, where=f"'{file}'", labelled=True)


def test_a_file_is_read_with_its_texts_as_they_are(tmp_path: Path) -> None:
    layout = replace(LAYOUT, numbers=("a",), categories={"code": ("007", "1", "7")}, targets=("y",), labels=("01", "1"))
    (tmp_path / "new.csv").write_text("code;y;a\n007;01;1,5\n7;1;2\n1.0;1;\n8;01;2\n")
    found = laid_out(tmp_path / "new.csv", layout)
    assert found.inputs[:, 1].tolist() == [0, 2, 1, -1]
    assert found.labelled().targets.tolist() == [0, 1, 1, 0]
    assert np.isnan(found.inputs[:, 0]).tolist() == [False, False, True, False]


def test_numbers_of_a_new_file_are_spelled_as_the_model_was_trained(tmp_path: Path) -> None:
    """Versions (1.0, 2) are texts where training saw others beside them; classes of numbers may be written 01."""
    layout = replace(LAYOUT, numbers=("a",), categories={"code": ("1.0", "2", "beta")}, labels=("1", "2", "10"))
    (tmp_path / "new.csv").write_text("code,y,a\n1.0,01,1\n2.0,2,2\n1,010,3\n")
    found = laid_out(tmp_path / "new.csv", layout)
    assert found.inputs[:, 1].tolist() == [0, 1, -1]
    assert found.labelled().targets.tolist() == [0, 1, 2]

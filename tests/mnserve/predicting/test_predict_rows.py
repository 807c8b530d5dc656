"""``mnserve predict`` of tables: every row comes back with the columns of its answer, or with a reason."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.commands.predict import run
from mnserve.errors import ModelConfigError, OutputError, RowModelError, SettingsError
from mnserve.predicting.settings import PredictSettings

TABLE = "id,color,income,age,y\n7,red,2,30,\n8,,3,1.5,9\n9,violet,,-4e0,9\n"
VALUES = [30 + 20 + 200, 1.5 + 30 - 100, -4 + 5 - 100]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a table: ``table("rows.csv", text)``."""

    def write(name: str = "rows.csv", text: str | bytes = TABLE) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def predict(model: Path | str, *files: Path, **options: Any) -> int:
    return run(PredictSettings(model=str(model), files=[str(file) for file in files], **options))


def read(text: str, separator: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


def test_a_table_comes_back_with_a_column_for_each_target(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(row_model(), table()) == 0
    out, err = capsys.readouterr()
    rows = read(out)
    assert list(rows[0]) == ["id", "color", "income", "age", "y", "predicted_y", "predicted_z"]
    assert [row["id"] for row in rows] == ["7", "8", "9"]
    assert [row["age"] for row in rows] == ["30", "1.5", "-4e0"]
    assert [float(row["predicted_y"]) for row in rows] == VALUES
    assert [float(row["predicted_z"]) for row in rows] == [-value for value in VALUES]
    assert err.splitlines() == [
        "mnserve predict: note: column 'color' has 1 category that the model does not know, such as 'violet', in 1 "
        "row; each counts as none of its 3"
    ]


@pytest.mark.parametrize(
    ("name", "separator"), [("rows.tsv", "\t"), ("rows.csv", ";"), ("rows.csv.gz", ","), ("rows.txt", "\t")]
)
def test_tables_of_every_kind_are_read_and_written_alike(
    row_model: Callable[..., Path],
    table: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    separator: str,
) -> None:
    content = ("\ufeff" + TABLE.replace(",", separator).replace("\n", "\r\n")).encode()
    assert predict(row_model(), table(name, gzip.compress(content) if name.endswith("gz") else content)) == 0
    rows = read(capsys.readouterr().out, separator)
    assert [float(row["predicted_y"]) for row in rows] == VALUES
    assert rows[0]["id"] == "7"


def test_cells_mean_what_they_mean_in_training(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("NA", "?", "None", "<NA>", "nan")
    lines = [f"{word},1, red " for word in words] + ["true,1,NA", "FALSE,1,blue", "1, 2 ,RED"]
    assert predict(row_model(), table("rows.csv", "\n".join(["age , income,color", *lines]))) == 0
    out, err = capsys.readouterr()
    assert [float(row["predicted_y"]) for row in read(out)] == [210.5] * len(words) + [1 + 10 - 100, 10, 1 + 20 - 100]
    assert "such as 'RED', in 1 row" in err


def test_names_are_found_as_in_training_and_written_as_they_were(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stated = {"layout": "rows", "columns": ["age", "Unnamed: 2", "color"], "categories": {"color": ["x"]}}
    model = row_model(**{"mn.input": stated | {"targets": ["y", "z"]}})
    assert predict(model, table("rows.csv", " age,color,\n1,x,2\n")) == 0
    assert capsys.readouterr().out.splitlines()[0] == " age,color,,predicted_y,predicted_z"


def test_the_texts_of_missing_values_are_those_of_training() -> None:
    from mnserve.predicting.row_values import _MISSING
    from mntrain.data.reading.table_text import MISSING_TEXTS

    assert _MISSING == MISSING_TEXTS


def test_whole_numbers_and_truth_may_be_spelled_otherwise_in_a_file(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stated = {"layout": "rows", "columns": ["age", "income", "c"], "categories": {"c": ["7", "007", "true"]}}
    model = row_model(**{"mn.input": stated | {"targets": ["y", "z"]}})
    assert predict(model, table("rows.csv", "age,income,c\n1,1,7\n1,1,7.0\n1,1,007\n1,1,True\n1,1,7.5\n")) == 0
    assert "1 category that the model does not know, such as '7.5', in 1 row" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ages", "values"),
    [
        (("1,5", "2,250", "-,5"), [1.5, 2.25, -0.5]),
        (("1.5", "2.250", "-.5"), [1.5, 2.25, -0.5]),
        (("0,125", "3", "4"), [0.125, 3, 4]),
    ],
)
def test_commas_are_decimal_marks_where_they_separate_nothing(
    row_model: Callable[..., Path],
    table: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    ages: tuple[str, ...],
    values: list[float],
) -> None:
    text = "age;income;color\n" + "".join(f"{age};0;blue\n" for age in ages)
    assert predict(row_model(), table("rows.csv", text)) == 0
    assert [float(row["predicted_y"]) for row in read(capsys.readouterr().out, ";")] == values


def test_marks_that_may_part_thousands_are_refused(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = row_model()
    assert predict(model, table("rows.csv", "age;income;color\n1,250;1;red\n2;1;red\n")) == 1
    out, err = capsys.readouterr()
    assert [row["predicted_y"] for row in read(out, ";")] == ["", "212.0"]
    assert "column 'age' is '1,250', which is no number" in err
    assert predict(model, table("rows.csv", "age;income;color\n1,5;1.5;red\n")) == 1
    assert "numbers have commas (1,5) and points (1.5)" in capsys.readouterr().err


def test_a_cell_may_hold_the_separator_and_line_breaks(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'note,age,income,color\n"one, ""two""\nthree",1,2,grün\n\n"",1,2,blue\n'
    assert predict(row_model(), table("rows.csv", text)) == 0
    rows = read(capsys.readouterr().out)
    assert [row["note"] for row in rows] == ['one, "two"\nthree', ""]
    assert [float(row["predicted_y"]) for row in rows] == [121, 21]


BAD_ROWS = "id,age,income,color\n1,1,1,red\n2,old,x,red\n3,1,inf,red\n4,1,1\n5,1e39,1,red\n6,1,1,blue\n"


def test_every_row_ends_as_a_prediction_or_with_a_reason(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = table("rows.csv", BAD_ROWS)
    assert predict(row_model(), file) == 1
    out, err = capsys.readouterr()
    rows = read(out)
    assert [row["id"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row["predicted_y"] for row in rows] == ["211.0", "", "", "", "", "11.0"]
    assert err.splitlines() == [
        f"mnserve predict: error: {file}, row 2: column 'age' is 'old', which is no number; column 'income' is 'x', "
        "which is no number",
        f"mnserve predict: error: {file}, row 3: column 'income' is 'inf', which is no number",
        f"mnserve predict: error: {file}, row 4: it has 3 cells, but the first line names 4 columns",
        f"mnserve predict: error: {file}, row 5: column 'age' is 1e39, which is more than 32-bit floating point can "
        "hold",
        "mnserve predict: 2 predicted, 4 not",
    ]


def test_json_has_cells_and_values_or_the_reason(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = table("rows.csv", BAD_ROWS)
    assert predict(row_model(), file, json=True, explain=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["row"] for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[0]["cells"] == {"id": "1", "age": "1", "income": "1", "color": "red"}
    assert found[0]["values"] == {"y": 211, "z": -211}
    assert found[0]["explanation"] == {
        "neighbors": [
            {"entry": 0, "weight": 1.0, "values": {"y": 1, "z": 2}},
            {"entry": 1, "weight": 0.0, "values": {"y": 3, "z": 4}},
        ],
        "unadapted": {"y": 0, "z": 0},
    }
    assert found[1]["error"].startswith("column 'age' is 'old'")
    assert "values" not in found[1]


def test_an_explanation_has_columns_of_its_own(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(row_model(), table(), explain=True) == 0
    rows = read(capsys.readouterr().out)
    assert list(rows[0])[5:] == ["predicted_y", "predicted_z", "unadapted_y", "unadapted_z", "neighbors"]
    assert rows[0]["neighbors"] == "#0 100.0% 1.0 2.0; #1 0.0% 3.0 4.0"


def test_the_answer_goes_to_a_file(row_model: Callable[..., Path], table: Callable[..., Path], tmp_path: Path) -> None:
    model, file = row_model(), table()
    assert predict(model, file, output=str(tmp_path / "out.csv")) == 0
    assert len(read((tmp_path / "out.csv").read_text())) == 3
    assert predict(model, file, output=str(tmp_path / "out.csv.gz")) == 0
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == (tmp_path / "out.csv").read_bytes()
    with pytest.raises(OutputError, match="one of the tables to read"):
        predict(model, file, output=str(file))
    assert file.read_text() == TABLE


def test_a_model_that_fills_nothing_in_refuses_a_gap(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(row_model(allow_nan=None), table()) == 1
    out, err = capsys.readouterr()
    assert [row["predicted_y"] for row in read(out)] == ["250.0", "-68.5", ""]
    assert "row 3: column 'income' has no value, and the model fills none in" in err


FAULTS: dict[str, tuple[bytes, str]] = {
    "columns are missing": (b"id,age\n1,2\n", "the table has no 'income', 'color'; .*'id', 'age'"),
    "a column is there twice": (b"age,income,color,age\n1,2,red,3\n", "several columns 'age'"),
    "empty": (b"", "the file is empty"),
    "parquet": (b"PAR1\x15\x04", "parquet file, which is not read here; save it as a table of text"),
    "workbook": (b"PK\x03\x04rest", "a workbook or an archive"),
    "Latin-1": ("age,income,color\n1,2,grün\n".encode("latin-1"), "not text in UTF-8"),
    "UTF-16": ("age,income,color\n1,2,red\n".encode("utf-16"), "not text in UTF-8"),
    "packed and cut": (gzip.compress(TABLE.encode())[:-9], "cannot be read any further"),
    "a quote without an end": (b'age,income,color\n1,2,"red\n', "cannot be read any further"),
    "columns that are to be added": (b"age,income,color,predicted_y\n1,2,red,3\n", "predicted_y already"),
}


@pytest.mark.parametrize(("content", "reason"), FAULTS.values(), ids=list(FAULTS))
def test_a_table_that_cannot_be_used_is_refused_by_name(
    row_model: Callable[..., Path],
    table: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    reason: str,
) -> None:
    import re

    model, file, good = row_model(), table("bad.csv", content), table()
    assert predict(model, file) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"mnserve predict: error: {file}: ")
    assert re.search(reason, err), err
    assert predict(model, good.with_name("gone.csv"), good) == 1
    out, err = capsys.readouterr()
    assert len(read(out)) == 3
    assert "gone.csv: no such file" in err


def test_rows_before_a_fault_of_the_file_are_answered(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{number},1,red\n" for number in range(6))
    assert predict(row_model(), table("rows.csv", f'age,income,color\n{rows}7,1,"red')) == 1
    assert [float(row["predicted_y"]) for row in read(capsys.readouterr().out)] == [210 + n for n in range(6)]


def test_options_about_images_are_refused(row_model: Callable[..., Path], table: Callable[..., Path]) -> None:
    with pytest.raises(SettingsError, match="--resize is about images, and model 'rows' takes rows"):
        predict(row_model(), table(), resize=True)


def test_an_image_model_writes_no_table(colour_model: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--output is about tables"):
        predict(colour_model("m"), tmp_path, output=str(tmp_path / "out.csv"))


def test_a_model_without_neighbors_explains_nothing(
    onnx_model: Callable[..., Path], table: Callable[..., Path]
) -> None:
    stated = json.dumps(json.dumps({"layout": "rows", "columns": ["age"], "target": "y"}))
    config = f'max_batch_size: 4 parameters {{ key: "mn.input" value {{ string_value: {stated} }} }}'
    tensor = ("FLOAT", ["batch", 1])
    model = onnx_model("plain", [("Neg", ["row"], ["value"])], {"row": tensor}, {"value": tensor}, config=config)
    with pytest.raises(RowModelError, match="mnexport --explain K"):
        predict(model, table(), explain=True)


def test_a_description_that_does_not_fit_is_refused(row_model: Callable[..., Path], table: Callable[..., Path]) -> None:
    stated = {"layout": "rows", "columns": ["age", "income"], "target": "y"}
    with pytest.raises(ModelConfigError, match=r"dims \[\[2\], \[1\]\], but .* 2 columns of numbers and 0"):
        predict(row_model("a", **{"mn.input": stated}), table())
    with pytest.raises(ModelConfigError, match="does not describe rows"):
        predict(row_model("b", **{"mn.input": {"layout": "rows", "columns": "age", "target": "y"}}), table())


def test_a_classifier_of_rows_adds_class_and_probability(
    onnx_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stated = {
        "mn.input": {"layout": "rows", "columns": ["age", "income"], "target": "who"},
        "mn.labels": ["old", "rich"],
    }
    config = "max_batch_size: 4\n" + "\n".join(
        f"parameters {{ key: {json.dumps(key)} value {{ string_value: {json.dumps(json.dumps(value))} }} }}"
        for key, value in stated.items()
    )
    tensor = ("FLOAT", ["batch", 2])
    model = onnx_model(
        "who", [("Softmax", ["row"], ["probabilities"])], {"row": tensor}, {"probabilities": tensor}, config=config
    )
    file = table("rows.csv", "income,age\n1,3\n2,0\n")
    assert predict(model, file) == 0
    rows = read(capsys.readouterr().out)
    assert [row["predicted_who"] for row in rows] == ["old", "rich"]
    assert float(rows[0]["predicted_who_probability"]) == pytest.approx(1 / (1 + np.exp(-2)))
    assert predict(model, file, json=True, top=1) == 0
    assert [one["label"] for one in json.loads(capsys.readouterr().out)] == ["old", "rich"]


def test_a_model_may_list_no_categories(
    row_model: Callable[..., Path], table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    stated = {"layout": "rows", "columns": ["age", "income", "color"], "categories": {"color": []}}
    assert predict(row_model(**{"mn.input": stated | {"targets": ["y", "z"]}}), table()) == 0
    out, err = capsys.readouterr()
    assert [float(row["predicted_y"]) for row in read(out)] == VALUES
    assert err == ""

"""Files of a table: delimiters, decimal commas, compression, encodings, and folders with a file for each split."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.data.reading.table_text import read_text_table
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError, DataError, MnTrainError

COUNT = 20
RANDOM = np.random.default_rng(1)
A, Y = (RANDOM.normal(size=COUNT).round(4) for _ in range(2))
COLOR = ["red", "blue", "green", "blue"] * 5
HEADER = ["a", "color", "y"]


def load(path: Path, **fields: Any) -> TableData:
    data = load_data(DataConfig(source="table", path=str(path), **fields))
    assert isinstance(data, TableData)
    return data


def text(delimiter: str = ",", decimal: str = ".", header: list[str] = HEADER, end: str = "\n") -> str:
    rows = [
        [str(a).replace(".", decimal), color, str(y).replace(".", decimal)]
        for a, color, y in zip(A, COLOR, Y, strict=True)
    ]
    return end.join(delimiter.join(row) for row in [header, *rows]) + end


def check(data: TableData) -> None:
    rows = np.concatenate([data.split.indices[part] for part in ("train", "validation", "test")])
    assert (data.feature_names, data.target_names) == (("a", "color"), ("y",))
    np.testing.assert_allclose(data.part("all").inputs[:, 0], A[rows], rtol=1e-6)
    np.testing.assert_allclose(data.part("all").targets, Y[rows], rtol=1e-6)
    assert data.categories == {"color": ("blue", "green", "red")}


@pytest.mark.parametrize(
    ("name", "content", "layout"),
    [
        ("rows.csv", text(), "comma-separated text"),
        ("rows.tsv", text("\t"), "tab-separated text"),
        ("rows.csv", text(";"), "semicolon-separated text"),
        ("ROWS.CSV", text("\t"), "tab-separated text"),
        ("rows.txt", text(";", ","), "semicolon-separated text with decimal commas"),
        ("rows.tsv", text("\t", ","), "tab-separated text with decimal commas"),
        ("rows.csv.gz", text(), "comma-separated text"),
        ("rows.tsv.gz", text("\t"), "tab-separated text"),
        ("rows.csv", text(end="\r\n"), "comma-separated text"),
        ("rows.csv", "\ufeff" + text(";", end="\r\n"), "semicolon-separated text"),
        ("rows.csv", text(header=['"a"', '" color "', '"y"']), "comma-separated text"),
        ("rows.csv", text(header=[" a", " color", " y"]).replace(",", ", "), "comma-separated text"),
    ],
)
def test_text_files_are_read_as_they_are_written(tmp_path: Path, name: str, content: str, layout: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    data = load(file)
    check(data)
    assert (data.account.location, data.account.layout) == (str(file), layout)
    assert data.account.splits == f"all splits are drawn from the rows of {name}"


def test_delimiters_inside_quotes_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text(";", header=['"length, cm"', '"a\tb"', "y"]))
    assert load(file).feature_names == ("length, cm", "a\tb")
    file.write_text(text(";", header=["length, cm", "color", "y"]))
    assert load(file).feature_names == ("length, cm", "color"), "the lines below have one delimiter"


@pytest.mark.parametrize("spelling", ["", "NA", "N/A", "NaN", "null", "<NA>", "?", "None", "  "])
def test_spellings_of_a_missing_number_are_known(tmp_path: Path, spelling: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text().replace(f"{A[3]},", f"{spelling},"))
    data = load(file)
    assert data.feature_names == ("a", "color")
    assert np.isnan(data.part("all").inputs[:, 0]).sum() == 1
    assert next(column.missing for column in data.account.columns if column.name == "a") == 1


def test_question_marks_among_texts_are_a_category(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text().replace("red", "?").replace("green", "NA"))
    assert load(file).categories == {"color": ("?", "blue")}


def test_a_later_line_may_change_the_kind_of_a_column(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    lines = ["a,y", *(f"{number % 7},{number % 5}" for number in range(400_000)), "0.5,1"]
    file.write_text("\n".join(lines))
    assert file.stat().st_size > 1 << 20, "more than a block of pyarrow"
    assert 0.5 in load(file).part("all").inputs


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a;y\n1,234;2\n2,345;3\n", ["may be decimal marks or part thousands", "'a' (1,234)"]),
        ("a;b;y\n1,5;2.5;2\n2,25;1.5;3\n", ["commas in 'a' (1,5)", "points in 'b'"]),
        ("a,b;c,d\n1,2;3,4\n1,2;3,4\n", ["several delimiters: comma, semicolon", "quotes"]),
        ("a,a,y\n1,2,3\n", ["several columns called a"]),
    ],
)
def test_text_that_may_mean_two_things_is_refused(tmp_path: Path, content: str, words: list[str]) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(content)
    with pytest.raises(DataError) as caught:
        load(file)
    for word in words:
        assert word in str(caught.value)


def test_one_thousand_may_be_a_decimal_where_other_columns_tell(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a;y\n" + "".join(f"{number},234;{number},5\n" for number in range(1, 21)))
    assert sorted(load(file).part("all").inputs[:, 0].tolist())[0] == pytest.approx(1.234)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("größe,y\n1,2\n".encode("latin-1"), "line 1"),
        (text().replace("green", "grün").encode("latin-1"), "not UTF-8 text"),
        (text().encode("utf-16"), "UTF-16"),
        (b"a,y\n" + b"1,2\n" * 400_000 + "é,2\n".encode("latin-1"), "not UTF-8 text"),
        (b"a,y\n\0\0\0\n", "zero bytes"),
    ],
)
def test_other_encodings_are_refused_with_the_remedy(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=words):
        load(file)


def test_a_damaged_compressed_file_is_explained(tmp_path: Path) -> None:
    for content in (b"a,y\n1,2\n", gzip.compress(text().encode())[:-20]):
        (tmp_path / "rows.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match="cannot be read as a table"):
            load(tmp_path / "rows.csv.gz")


def test_names_of_splits_count_in_any_case_and_format(tmp_path: Path) -> None:
    (tmp_path / "Train.csv").write_text(text(";", ","))
    (tmp_path / "VAL.tsv").write_text(text("\t"))
    reordered = pa.table({"y": Y, "color": COLOR, "a": A})
    pq.write_table(reordered, tmp_path / "Testing.parquet")
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / ".hidden.csv").write_text("a,y\n1,2\n")
    (tmp_path / "old").mkdir()
    data = load(tmp_path)
    assert data.split.counts == {"train": COUNT, "validation": COUNT, "test": COUNT}
    for part in ("train", "validation", "test"):
        np.testing.assert_allclose(data.part(part).inputs[:, 0], A, rtol=1e-6)
        np.testing.assert_allclose(data.part(part).targets, Y, rtol=1e-6)
    assert data.account.splits == "train is Train.csv, validation is VAL.tsv, test is Testing.parquet"
    told = {one.reason: (one.count, one.examples) for one in data.account.ignored}
    assert told == {
        "hidden": (1, (".hidden.csv",)),
        "a folder": (1, ("old",)),
        "no table by its name": (1, ("README.md",)),
    }


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["train.csv", "more.csv"], "more.csv belongs to no split"),
        (["train.csv", "Training.tsv"], "is train like"),
        (["train.csv", "train.parquet.csv"], "belongs to no split"),
        (["val.csv", "test.csv"], "none is called train"),
        (["a.csv", "b.csv"], "a.csv belongs to no split"),
    ],
)
def test_mixtures_of_files_are_refused_by_name(tmp_path: Path, names: list[str], words: str) -> None:
    for name in names:
        (tmp_path / name).write_text(text())
    with pytest.raises(DataError, match=words) as caught:
        load(tmp_path)
    for name in names:
        assert name in str(caught.value)


def test_splits_agree_in_columns_kinds_and_classes(tmp_path: Path) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text(text())
    test.write_text(text().replace("color", "colour"))
    with pytest.raises(DataError, match=r"colour, missing in the train split"):
        load(tmp_path)
    test.write_text(text().replace("red", "1").replace("blue", "2").replace("green", "3"))
    with pytest.raises(DataError, match=r"not of one kind in every split: 'color' \(text in train.*numbers in test"):
        load(tmp_path)
    assert load(tmp_path, category_columns="color").categories == {"color": ("blue", "green", "red")}
    test.write_text(text().replace("red", "violet"))
    with pytest.raises(DataError, match="'violet'"):
        load(tmp_path, target_column="color")
    test.write_text(text(header=["a", "color", "z"]).replace("a,color,z", "y,color,a"))
    swapped = load(tmp_path)
    np.testing.assert_allclose(swapped.test.targets, A, rtol=1e-6)


def test_classes_of_splits_are_mapped_by_name(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,y\n" + "".join(f"{value},{c}\n" for value, c in zip(A, COLOR, strict=True)))
    (tmp_path / "test.csv").write_text("y,a\nred,1\nred,2\nblue,3\n")
    data = load(tmp_path)
    assert data.label_names == ("blue", "green", "red")
    assert data.test.targets.tolist() == [2, 2, 0]


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    with pytest.raises(ConfigError, match=r"is no table; use a file called .csv, .tsv"):
        load(tmp_path / "rows.xlsx")
    with pytest.raises(DataError, match="holds nothing of that kind"):
        load(tmp_path)


SPLIT = ["train", "Train", "test", "dev"] * 5


def with_split(values: list[str], name: str = "split") -> str:
    lines = text().splitlines()
    return "\n".join(f"{line},{cell}" for line, cell in zip(lines, [name, *values], strict=True)) + "\n"


def test_a_column_that_names_splits_makes_them(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for name, fields in (("split", {}), ("part", {"split_column": "part"})):
        file.write_text(with_split(SPLIT, name))
        data = load(file, **fields)
        assert (data.feature_names, data.split.counts) == (("a", "color"), {"train": 10, "validation": 5, "test": 5})
        np.testing.assert_allclose(data.test.targets, Y[2::4], rtol=1e-6)
        assert data.account.splits == f"by the column '{name}'"
        assert next(column.role for column in data.account.columns if column.name == name) == "split"
    file.write_text(with_split(SPLIT))
    assert load(file, exclude_columns="split,color").feature_names == ("a",)
    file.write_text(with_split(["left", "right"] * 10))
    assert load(file).feature_names == ("a", "color", "split"), "an ordinary column"


@pytest.mark.parametrize(
    ("values", "fields", "words"),
    [
        (["train", "left"] * 10, {}, "'left', beside names of splits"),
        (["train", ""] * 10, {}, "no value, beside names of splits"),
        (["test", "val"] * 10, {}, "no row of the column 'split' says train"),
        (SPLIT, {"split_column": "part"}, "data.split_column is 'part'"),
        (["left", "right"] * 10, {"split_column": "split"}, "beside names of splits"),
        (SPLIT, {"split_column": "split", "exclude_columns": "split"}, "another field names"),
        (SPLIT, {"folds": 2}, "has a test split of its own"),
    ],
)
def test_a_column_of_splits_with_other_values_is_refused(
    tmp_path: Path, values: list[str], fields: dict[str, Any], words: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(with_split(values))
    with pytest.raises(MnTrainError, match=words):
        load(file, **fields)


def test_a_column_of_splits_must_not_contradict_the_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(with_split(["train"] * COUNT))
    (tmp_path / "test.csv").write_text(with_split(["test"] * COUNT))
    assert load(tmp_path).feature_names == ("a", "color")
    (tmp_path / "test.csv").write_text(with_split(["train"] * COUNT))
    with pytest.raises(DataError, match="the test split holds rows whose column 'split' says 'train'"):
        load(tmp_path)


def test_a_refused_table_ends_the_program_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of Arrow beside those of PyTorch abort about every second such program, so text is parsed without.

    One program is run, to see how it ends; what keeps it from aborting is looked up.
    """
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n3,4\n")
    command = [sys.executable, "-m", "mntrain", "data", "table", "--data.path", str(file)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    options: list[pa.csv.ReadOptions] = []
    read = pa.csv.read_csv

    def spy(*words: Any, read_options: pa.csv.ReadOptions, **named: Any) -> Any:
        options.append(read_options)
        return read(*words, read_options=read_options, **named)

    monkeypatch.setattr(pa.csv, "read_csv", spy)
    read_text_table(file)
    assert [option.use_threads for option in options] == [False]
    _, told = running.communicate(timeout=60)
    assert running.returncode == 1, told
    assert "none is called y, target, label or class" in told

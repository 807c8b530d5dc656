"""Columns of a table: a named target, no index among the features, texts as categories, missing values filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from mntrain.config import ExperimentConfig, load_experiment
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError, DataError, MnTrainError

Write = Callable[..., Path]
COUNT = 40
RANDOM = np.random.default_rng(0)
A, B, Y = (RANDOM.normal(size=COUNT) for _ in range(3))
COLORS = ["red", "green", "blue", "green"] * 10


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write columns (name → values) to a .csv or .parquet file."""

    def write_file(columns: dict[str, Any], name: str = "rows.parquet") -> Path:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        if file.suffix == ".parquet":
            pq.write_table(pa.table(columns), file)
        else:
            rows = zip(*columns.values(), strict=True)
            lines = [",".join(columns), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
            file.write_text("\n".join(lines) + "\n")
        return file

    return write_file


def load(path: Path, **fields: Any) -> TableData:
    data = load_data(DataConfig(source="table", path=str(path), **fields))
    assert isinstance(data, TableData)
    return data


def column(data: TableData, name: str) -> Any:
    return next(column for column in data.account.columns if column.name == name)


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["a", "b", "y"], "y"),
        (["target", "a", "b"], "target"),
        (["a", "Label", "b"], "Label"),
        (["a", "b", "CLASS"], "CLASS"),
        (["a", "y", "by_hand"], "y"),
    ],
)
def test_the_one_column_with_a_usual_name_is_the_target(write: Write, names: list[str], target: str) -> None:
    data = load(write(dict(zip(names, (A, B, Y), strict=True))))
    assert data.target_names == (target,)
    assert target not in data.feature_names


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b", "price"], "none is called y, target, label or class"),
        (["latitude", "a", "longitude"], "columns latitude, a, longitude"),
        (["a", "y", "label"], r"several may be the target \(y, label\)"),
        (["a", "y1", "y2"], r"several may be the target \(y1, y2\)"),
        (["a", "y", "y_2"], r"several may be the target \(y, y_2\)"),
        (["a", "target_x", "target_y"], r"several may be the target"),
    ],
)
def test_a_target_that_is_not_named_is_never_guessed(write: Write, names: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        load(write(dict(zip(names, (A, B, Y), strict=True))))
    assert "data.target_column" in str(caught.value)


def test_a_published_table_with_two_targets_is_refused_until_they_are_named(shared_data: Path) -> None:
    file = shared_data / "uci-music68" / "music68.parquet"
    with pytest.raises(DataError, match=r"x0, x1, x2, x3 … x66, x67, latitude, longitude \(70 in all\)"):
        load(file)
    assert load(file, target_column="latitude,longitude").train.targets.shape[1] == 2


@pytest.mark.parametrize("given", [["lat", "lon"], "[lat, lon]", "lat,lon", "lat, lon", ("lat", "lon")])
def test_several_targets_are_values_side_by_side(write: Write, given: Any) -> None:
    data = load(write({"lat": Y, "a": A, "lon": B}), target_column=given)
    assert (data.target_names, data.feature_names) == (("lat", "lon"), ("a",))
    assert data.train.targets.shape == (29, 2)
    assert data.train.targets.dtype == np.float32
    rows = data.split.indices["test"]
    np.testing.assert_allclose(data.test.targets, np.stack([Y[rows], B[rows]], axis=1), rtol=1e-6)
    scale = StandardizationConfig.from_data(data)
    np.testing.assert_allclose(scale.targets(data.train).targets.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scale.targets(data.train).targets.std(axis=0), 1, atol=1e-6)


def test_a_column_with_a_comma_in_its_name_is_one_target(write: Write) -> None:
    assert load(write({"a": A, "b": B, "a,b": Y}), target_column="a,b").target_names == ("a,b",)


INDEX = {
    "pandas in parquet": ("__index_level_0__", RANDOM.permutation(COUNT), "the index of a data frame"),
    "pandas in text": ("", np.arange(COUNT), "the index of a data frame"),
    "read and written again": ("Unnamed: 0", RANDOM.permutation(COUNT), "the index of a data frame"),
    "joined frames": ("", list(range(COUNT // 2)) * 2, "the index of a data frame"),
    "names of rows": ("", [f"row {number}" for number in range(COUNT)], "the index of a data frame"),
    "reset_index": ("index", RANDOM.permutation(COUNT), "the index of a data frame"),
    "joined and reset": ("index", list(range(COUNT // 2)) * 2, "the index of a data frame"),
    "counted": ("index", np.arange(COUNT), "the index of a data frame"),
    "from one": ("id", np.arange(COUNT) + 1, "numbers the rows"),
    "camel case": ("PassengerId", np.arange(COUNT) + 892, "numbers the rows"),
}


@pytest.mark.parametrize("case", INDEX)
def test_an_index_is_no_feature_and_is_told(write: Write, case: str) -> None:
    name, values, note = INDEX[case]
    data = load(write({name: values, "a": A, "b": B, "y": Y}, "rows.csv"))
    assert data.feature_names == ("a", "b")
    left_out = [column for column in data.account.columns if column.role == "excluded"]
    assert [column.name for column in left_out] == [name or "Unnamed: 0"]
    assert note in left_out[0].note


def test_an_index_that_pandas_noted_down_is_no_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": A, "y": Y}, index=pd.Index(RANDOM.normal(size=COUNT), name="customer"))
    frame.to_parquet(tmp_path / "rows.parquet")
    data = load(tmp_path / "rows.parquet")
    assert data.feature_names == ("a",)
    assert column(data, "customer").note == "the index of a data frame"
    assert load(tmp_path / "rows.parquet", target_column="customer").feature_names == ("a", "y")


def test_categories_of_pandas_are_categories_whatever_they_hold(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": A, "code": pd.Categorical([3, 1, 20, 1] * 10), "y": Y})
    frame.to_parquet(tmp_path / "rows.parquet")
    assert load(tmp_path / "rows.parquet").categories == {"code": ("1", "3", "20")}


def test_an_empty_column_without_a_name_is_left_out_and_another_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,y,\n" + "".join(f"{a},{y},\n" for a, y in zip(A, Y, strict=True)))
    assert "without a name and a value" in column(load(file), "Unnamed: 2").note
    file.write_text("a,y,\n" + "".join(f"{a},{y},{a}\n" for a, y in zip(A, Y, strict=True)))
    with pytest.raises(DataError, match=r"without a name \('Unnamed: 2'.*data\.exclude_columns"):
        load(file)
    assert load(file, exclude_columns="Unnamed: 2").feature_names == ("a",)


def test_numbers_of_rows_under_another_name_stay_features_with_a_note(write: Write) -> None:
    data = load(write({"time": np.arange(COUNT), "id": RANDOM.permutation(COUNT), "y": Y}))
    assert data.feature_names == ("time", "id")
    assert "goes up by one from row to row" in column(data, "time").note
    assert "of its own in every row" in column(data, "id").note


def test_columns_are_excluded_by_name(write: Write) -> None:
    file = write({"a": A, "b": B, "c": [None] * COUNT, "y": Y})
    data = load(file, exclude_columns="b,c")
    assert data.feature_names == ("a",)
    assert [(one.role, one.missing) for one in data.account.columns] == [
        ("feature", 0),
        ("excluded", 0),
        ("excluded", COUNT),
        ("target", 0),
    ]


def test_texts_are_categories_with_a_vocabulary_of_training_values_alone(write: Write) -> None:
    test_only = [*COLORS[:-1], "violet"]
    data = load(write({"color": test_only, "a": A, "y": Y}))
    split = next(name for name, rows in data.split.indices.items() if COUNT - 1 in rows)
    colors = ("blue", "green", "red")
    assert data.feature_names == ("a", "color"), "numbers come first"
    assert data.categories == {"color": colors if split != "train" else (*colors, "violet")}
    for seed in range(20):
        data = load(write({"color": test_only, "a": A, "y": Y}), split_seed=seed)
        if COUNT - 1 in data.split.indices["test"]:
            break
    assert data.categories == {"color": colors}
    for part, rows in data.split.indices.items():
        expected = [colors.index(test_only[row]) if test_only[row] in colors else -1 for row in rows]
        assert data.part(part).inputs[:, 1].tolist() == expected
    told = column(data, "color")
    assert (told.role, told.kind, told.categories) == ("feature", "category", colors)
    assert "count as unknown: 1 of test" in told.note


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_missing_texts_are_no_category(write: Write, name: str) -> None:
    data = load(write({"color": [None, *COLORS[1:]], "a": A, "y": Y}, name))
    assert data.categories == {"color": ("blue", "green", "red")}
    assert column(data, "color").missing == 1
    assert data.part("all").inputs[:, 1].tolist().count(-1) == 1
    assert data.imputation is None, "no number is missing"


def test_whole_numbers_are_categories_where_asked(write: Write) -> None:
    codes = [10, 9, 2, 10] * 10
    assert load(write({"code": codes, "a": A, "y": Y})).categories == {}
    data = load(write({"code": codes, "a": A, "y": Y}), category_columns="code")
    assert data.categories == {"code": ("2", "9", "10")}
    floats = [float(code) for code in codes[:-1]] + [None]
    assert load(write({"code": floats, "a": A, "y": Y}), category_columns="code").categories == data.categories
    text = write({"code": ["010", "9", "2", ""] * 10, "a": A, "y": Y}, "rows.csv")
    assert load(text, category_columns="code").categories == {"code": ("2", "9", "010")}


def test_true_and_false_stay_one_number(write: Write) -> None:
    data = load(write({"flag": [True, False] * 20, "y": Y}))
    assert (data.categories, sorted(set(data.train.inputs[:, 0].tolist()))) == ({}, [0.0, 1.0])


@pytest.mark.parametrize(("rule", "statistic"), [("median", np.median), ("mean", np.mean)])
def test_missing_numbers_become_the_middle_of_the_training_rows(write: Write, rule: str, statistic: Any) -> None:
    held = [None if number % 5 == 0 else value for number, value in enumerate(A)]
    data = load(write({"a": held, "b": B, "y": Y}, "rows.csv"), missing=rule)
    assert data.imputation == rule
    scale = StandardizationConfig.from_data(data)
    known = data.train.inputs[:, 0][~np.isnan(data.train.inputs[:, 0])]
    assert scale.fill is not None
    assert scale.fill[0] == pytest.approx(statistic(known), rel=1e-6)
    encoded = scale.inputs(data.test.inputs)
    assert np.isfinite(encoded).all()
    missing = np.isnan(data.test.inputs[:, 0])
    np.testing.assert_allclose(encoded[missing, 0], (scale.fill[0] - scale.mean[0]) / scale.std[0], atol=1e-6)
    told = column(data, "a")
    assert (told.missing, rule in told.note) == (8, True)


def test_a_table_without_missing_numbers_is_not_imputed(write: Write) -> None:
    assert StandardizationConfig.from_data(load(write({"a": A, "y": Y}))).fill is None


T = ["2021-03-04", "2021-03-05"] * 20
BAD: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "identities": (
        {"name": [f"n{i}" for i in range(COUNT)], "y": Y},
        {},
        ["'name' (40 values", "data.exclude_columns"],
    ),
    "numbers as text": ({"a": ["1.5", "2.5", "x", "4.5"] * 10, "y": Y}, {}, ["look like numbers", "'x' in row 3"]),
    "thousands": ({"a": ["1.234,5", "2.234,5"] * 20, "y": Y}, {}, ["look like numbers"]),
    "dates": ({"day": pa.array(T).cast(pa.date32()), "y": Y}, {}, ["dates or times", "'day'", "data.exclude_columns"]),
    "dates as text": ({"day": ["3/4/2021", "12/31/2020"] * 20, "y": Y}, {}, ["dates or times", "'3/4/2021'"]),
    "lists": ({"a": [[1, 2]] * COUNT, "y": Y}, {}, ["neither numbers nor texts", "list"]),
    "one text": ({"a": ["x"] * COUNT, "b": B, "y": Y}, {}, ["same value", "'a'"]),
    "decimal categories": ({"a": A, "y": Y}, {"category_columns": "a"}, ["decimal numbers", "'a'"]),
    "category of no name": ({"a": A, "y": Y}, {"category_columns": "c"}, ["data.category_columns is 'c'"]),
    "wrong exclusion": ({"price": A, "y": Y}, {"exclude_columns": "prize"}, ["'prize'", "did you mean 'price'"]),
    "target excluded": (
        {"a": A, "y": Y},
        {"exclude_columns": "y", "target_column": "y"},
        ["data.exclude_columns names 'y'"],
    ),
    "category twice": (
        {"a": COLORS, "b": B, "y": Y},
        {"exclude_columns": "a", "category_columns": "a"},
        ["both name 'a'"],
    ),
    "classes together": ({"a": A, "b": COLORS, "y": Y}, {"target_column": ["b", "y"]}, ["must all be numbers", "'b'"]),
    "several classes": (
        {"a": A, "b": [1, 2] * 20, "y": [1, 2] * 20},
        {"target_column": ["b", "y"], "target": "class"},
        ["data.target is 'class'", "2 columns"],
    ),
    "missing target": ({"a": A, "y": [*Y[:-1], None]}, {}, ["'y' has no value", "row 40"]),
    "missing class": ({"a": A, "y": [*COLORS[:-1], None]}, {}, ["'y' has no value", "row 40"]),
    "missing refused": ({"a": [*COLORS[:-1], None], "y": Y}, {"missing": "refuse"}, ["'a' has no value", "row 40"]),
    "target of amounts": ({"a": A, "y": ["$1,000", "$2,000"] * 20}, {}, ["look like numbers", "data.target to class"]),
    "target of a typing error": ({"a": A, "y": ["1", "2", "2", "x"] * 10}, {}, ["look like numbers", "'x' in row 4"]),
    "infinite": ({"a": [*A[:-1], float("inf")], "y": Y}, {}, ["'a' is inf in row 40"]),
    "all but the target": ({"a": A, "y": Y}, {"exclude_columns": "a"}, ["single column 'y'"]),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_that_cannot_be_used_are_refused_with_the_remedy(write: Write, case: str) -> None:
    columns, fields, words = BAD[case]
    with pytest.raises(MnTrainError) as caught:
        load(write(columns), **fields)
    for word in words:
        assert word in str(caught.value)


def test_a_column_without_a_training_value_is_refused(write: Write, tmp_path: Path) -> None:
    write({"a": [None] * 20, "b": B[:20], "y": Y[:20]}, "set/train.csv")
    write({"a": A[20:], "b": B[20:], "y": Y[20:]}, "set/test.csv")
    with pytest.raises(DataError, match=r"No training row has a value in 'a'.*data\.exclude_columns"):
        load(tmp_path / "set")
    write({"a": COLORS[20:], "b": B[20:], "y": Y[20:]}, "set/test.csv")
    with pytest.raises(DataError, match=r"No training row has a value in 'a'.*data\.exclude_columns"):
        load(tmp_path / "set")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target_column": []}, "data.target_column"),
        ({"target_column": " "}, "data.target_column"),
        ({"exclude_columns": 3}, "data.exclude_columns"),
        ({"category_columns": ["a", ""]}, "data.category_columns"),
        ({"missing": "zero"}, "data.missing is 'zero'"),
    ],
)
def test_fields_without_a_name_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        DataConfig(source="table", path="rows.csv", **fields)


def test_names_are_kept_as_plain_values() -> None:
    config = DataConfig(source="table", path="x", target_column="[a]", exclude_columns="b", category_columns="[1, 2]")
    plain = config.to_dict()
    assert (plain["target_column"], plain["exclude_columns"], plain["category_columns"]) == ("a", ["b"], ["1", "2"])
    assert DataConfig(**plain) == config


def test_names_are_given_on_the_command_line_as_one_word_or_a_list() -> None:
    words = ["--data.target_column", "[lat, lon]", "--data.exclude_columns", "id", "--data.category_columns", "[1, 2]"]
    config = load_experiment("table", words)
    assert config.data.target_column == ("lat", "lon")
    assert (config.data.exclude_columns, config.data.category_columns) == (("id",), ("1", "2"))
    assert ExperimentConfig.from_dict(yaml.safe_load(yaml.safe_dump(config.to_dict()))) == config
    assert load_experiment("table", ["--data.target_column", "price"]).data.target_column == "price"


@pytest.mark.parametrize("by_number", [False, True])
def test_texts_of_parquet_are_read_as_those_of_text_files(write: Write, by_number: bool) -> None:
    """Served models take an empty text for a missing category, whatever file they were trained on."""
    texts = pa.array(["red", " red", "", "NA", None, "blue ", "blue", "red", "blue", "red"] * 4)
    data = load(write({"a": A, "color": texts.dictionary_encode() if by_number else texts, "y": Y}))
    assert data.categories == {"color": ("blue", "red")}
    assert next(column.missing for column in data.account.columns if column.name == "color") == 12

"""Tables from files: columns, splits, and refused values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError, DataError, MnTrainError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write columns (name → values) to a .csv or .parquet file."""

    def write_file(name: str = "rows.csv", **columns: Any) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            pq.write_table(pa.table(columns), file)
        else:
            lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
            file.write_text("\n".join(lines) + "\n")
        return file

    return write_file


def load(path: Path, **fields: Any) -> TableData:
    data = load_data(DataConfig(source="table", path=str(path), **fields))
    assert isinstance(data, TableData)
    return data


def numbers(count: int = 40) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {"a": random.normal(size=count), "b": np.arange(count), "y": random.normal(size=count)}


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_file_of_numbers_is_a_regression_on_column_y(write: Write, name: str) -> None:
    columns = numbers()
    data = load(write(name, y=columns["y"], a=columns["a"], b=columns["b"]))
    assert (data.feature_names, data.target_names, data.label_names) == (("a", "b"), ("y",), None)
    assert data.split.counts == {"train": 29, "validation": 3, "test": 8}
    for part in ("train", "validation", "test"):
        rows = data.split.indices[part]
        np.testing.assert_allclose(data.part(part).inputs[:, 0], columns["a"][rows], rtol=1e-6)
        np.testing.assert_allclose(data.part(part).targets, columns["y"][rows], rtol=1e-6)


@pytest.mark.parametrize(
    ("target", "kind", "names"),
    [
        (["cat", "dog"] * 20, "auto", ("cat", "dog")),
        ([True, False] * 20, "auto", ("False", "True")),
        (pa.array(["cat", "dog"] * 20).dictionary_encode(), "auto", ("cat", "dog")),
        ([7, 12] * 20, "class", ("7", "12")),
        ([7, 12] * 20, "auto", None),
        ([7.5, 12.0] * 20, "auto", None),
    ],
)
def test_text_and_truth_are_classes_and_numbers_are_values(
    write: Write, target: Any, kind: str, names: tuple[str, ...] | None
) -> None:
    columns = numbers()
    data = load(write("rows.parquet", a=columns["a"], b=columns["b"], y=target), target=kind)
    assert data.label_names == names
    assert data.train.targets.dtype == (np.float32 if names is None else np.int64)


def test_many_classes_are_accepted(write: Write) -> None:
    names = [f"c{number:04}" for number in range(1200)]
    data = load(write("rows.parquet", a=np.arange(6000.0), y=names * 5), test_fraction=0.3, validation_fraction=0.4)
    assert data.label_names == tuple(names)


def test_own_splits_of_a_folder_are_kept(write: Write, tmp_path: Path) -> None:
    write("set/train.csv", **numbers(40))
    write("set/test.csv", **numbers(10))
    data = load(tmp_path / "set")
    assert data.split.counts == {"train": 36, "validation": 4, "test": 10}
    with pytest.raises(ConfigError, match=r"data\.folds is 5, but the data has a test split"):
        load(tmp_path / "set", folds=5)


def test_folds_cover_every_row_once_and_are_the_same_in_every_run(write: Write) -> None:
    file = write(**numbers(43))
    folds = [load(file, folds=5, fold=fold, split_seed=3) for fold in range(5)]
    tested = np.concatenate([data.split.indices["test"] for data in folds])
    assert sorted(tested) == list(range(43))
    assert {len(data.test) for data in folds} == {8, 9}
    assert not np.array_equal(tested, np.arange(43)), "rows are shuffled"
    again = load(file, folds=5, fold=1, split_seed=3).split
    assert again.sha256 == folds[1].split.sha256
    for data in folds:
        parts = [set(data.split.indices[name]) for name in ("train", "validation", "test")]
        assert sum(map(len, parts)) == len(set.union(*parts)) == 43


def test_folds_of_classes_have_them_in_proportion(write: Write) -> None:
    columns = numbers() | {"y": ["rare"] * 10 + ["usual"] * 30}
    for fold in range(5):
        assert np.bincount(load(write(**columns), folds=5, fold=fold).test.targets).tolist() == [2, 6]


def test_a_limit_keeps_the_test_rows(write: Write) -> None:
    file = write(**numbers())
    full, limited = load(file), load(file, train_limit=10)
    assert len(limited.train) == 10
    np.testing.assert_array_equal(full.split.indices["test"], limited.split.indices["test"])


A = np.linspace(0, 1, 12)
BAD: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "text": ({"a": ["x"] * 12, "b": A, "y": A}, {}, ["same value in every row", "'a'", "data.exclude_columns"]),
    "NaN": (
        {"a": [*A[:4], float("nan"), *A[5:]], "y": A},
        {"missing": "refuse"},
        ["'a' has no value (empty or NaN) in row 5", "data.missing"],
    ),
    "infinite": ({"a": [*A[:4], float("inf"), *A[5:]], "y": A}, {}, ["'a' is inf in row 5", "infinite"]),
    "missing target": ({"a": A, "y": [*A[:11], None]}, {}, ["'y'", "row 12"]),
    "constant": (
        {"a": A, "b": [2] * 12, "c": [0.5] * 12, "y": A},
        {},
        ["same value", "'b', 'c'", "data.exclude_columns"],
    ),
    "constant target": ({"a": A, "y": [3.0] * 12}, {}, ["'y' is 3 in every row"]),
    "few rows": ({"a": A, "y": A}, {"folds": 20}, ["data.folds is 20", "12 rows"]),
    "no such column": ({"a": A, "y": A}, {"target_column": "z"}, ["data.target_column is 'z'", "columns a, y"]),
    "one column": ({"y": A}, {}, ["single column 'y'"]),
    "one word among numbers": (
        {"a": ["1", "2.5", "foo", *"123456789"], "b": A, "y": A},
        {},
        ["hold no numbers", "'a' (such as 'foo' in row 3)"],
    ),
    "tiny spread": ({"a": [n * 1e-42 for n in range(12)], "b": A, "y": A}, {}, ["column 'a' varies by", "scale"]),
    "float labels": ({"a": A, "y": [0.0, 1.0] * 6}, {"target": "class"}, ["decimal numbers", "such as '0.0'"]),
    "a class of one row": ({"a": A, "y": ["p"] * 11 + ["q"]}, {}, ["class 'q'", "single row"]),
    "values of text": ({"a": A, "y": ["p", "q"] * 6}, {"target": "value"}, ["'value'", "such as 'p'"]),
    "small class": ({"a": A, "y": ["p"] * 9 + ["q"] * 3}, {"folds": 5}, ["'q'", "fewer than 5 rows"]),
    "identities": ({"a": 2**60 + np.arange(12), "y": A}, {}, ["'a'", "as large as 11529215046068469", "identity"]),
    "times": ({"a": 1_600_000_000 + np.arange(12), "y": A}, {}, ["'a'", "rounds by", "subtract"]),
    "a row without a value": (
        {"a": pa.array([*A[:11], None]), "y": A},
        {"missing": "refuse"},
        ["'a'", "row 12", "fill them in"],
    ),
    "too large": ({"a": A * 1e300, "y": A}, {}, ["'a'", "1e+300", "scale"]),
    "all missing": ({"a": pa.nulls(12), "y": A}, {}, ["no value in any row: 'a'", "data.exclude_columns"]),
}


@pytest.mark.parametrize("case", BAD)
def test_unusable_columns_are_refused_in_one_sentence(write: Write, case: str) -> None:
    columns, fields, parts = BAD[case]
    with pytest.raises(MnTrainError) as caught:
        load(write("rows.parquet", **columns), **fields)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["cannot be read as a table", "empty"]),
        ("a,y\n", ["holds no rows"]),
        ("a,a,y\n1,2,3\n", ["several columns called a"]),
        ("1.5,2,3\n4,5,6\n", ["first line", "names of the columns"]),
        ("a,y\n1,2\n3\n", ["cannot be read as a table", "columns"]),
        ("a b y\n1 2 3\n4 5 6\n", ["single column 'a b y'", "a comma, a semicolon or a tab"]),
        ("a,y\n1,2\n100000000000000000000000000000000000000000000,3\n", ["'a'", "1e+44"]),
    ],
)
def test_a_damaged_csv_file_is_explained(tmp_path: Path, text: str, parts: list[str]) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        load(file)
    for part in parts:
        assert part in str(caught.value)


def test_other_files_and_folders_are_explained(tmp_path: Path, write: Write) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "none.csv")
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    with pytest.raises(ConfigError, match="is no table"):
        load(tmp_path / "rows.xlsx")
    (tmp_path / "false.parquet").write_text("a,y\n1,2\n")
    with pytest.raises(DataError, match="cannot be read as a table"):
        load(tmp_path / "false.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds nothing of that kind"):
        load(tmp_path / "empty")
    write("set/train.csv", **numbers())
    write("set/test.csv", a=A, y=A)
    with pytest.raises(DataError, match=r"different columns \(b, missing in the test split\)"):
        load(tmp_path / "set")


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"source": "table"}, ["data.path is not set", ".csv"]),
        ({"source": "table", "path": "x.csv", "image_size": 8}, ["data.image_size", "no use for it"]),
        ({"folds": 5}, ["data.folds is 5", "'digits' has no use", "'table'"]),
        ({"source": "table", "path": "x.csv", "folds": 1}, ["data.folds is 1", "from 2"]),
        ({"source": "table", "path": "x.csv", "folds": 5, "fold": 5}, ["data.fold is 5", "from 0 to 4"]),
        ({"source": "table", "path": "x.csv", "fold": 1}, ["data.fold is 1", "data.folds is not set"]),
        ({"source": "table", "path": "x.csv", "target": "labels"}, ["data.target", "'labels'"]),
        ({"rows": 500}, ["data.rows is 500", "'spiral'"]),
        ({"source": "spiral", "path": "x"}, ["data.path", "reads no files"]),
        ({"source": "spiral", "noise": -1.0}, ["data.noise is -1.0"]),
        ({"source": "spiral", "rows": 3}, ["data.rows is 3", "from 20"]),
        ({"source": "spiral", "turns": 0.0}, ["data.turns is 0.0"]),
    ],
)
def test_refuses_fields_that_do_not_fit(fields: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        DataConfig(**fields)
    for part in parts:
        assert part in str(caught.value)


def test_published_tables_are_read(shared_data: Path) -> None:
    data = load(shared_data / "uci" / "energy.parquet", folds=5, fold=2)
    assert (data.features, data.target_names, sum(data.split.counts.values())) == (8, ("y",), 768)

"""Which columns of a table of features are features, and that the summary names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mntrain.commands.cli import main
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.arrays.session import ArrayOptions, write_arrays
from mntrain.feature_store.report import FeaturesReport
from mntrain.networks.options import NetworkOptions

ROWS = 60
RANDOM = np.random.default_rng(0)
LABELS = np.repeat(np.arange(3), ROWS // 3)
ORDER = RANDOM.permutation(ROWS)
FEATURES: dict[str, Any] = {name: RANDOM.normal(size=ROWS) for name in "abcd"}


def report(folder: Path, table: pa.Table | dict[str, Any], **data: Any) -> FeaturesReport:
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), folder / "a.parquet")
    network = NetworkOptions(source=f"arrays:{folder / 'a.parquet'}")
    return write_arrays(ArrayOptions(network=network, store=folder / "store", data=data))


@pytest.mark.parametrize(
    ("first", "name", "values", "reason"),
    [
        (False, "__index_level_0__", ORDER, "the index of a data frame"),
        (True, "Unnamed: 0", ORDER, "without a name: the index of a data frame"),
        (False, "index", ORDER, "the index of a data frame"),
        (False, "id", np.arange(ROWS), "numbers the rows"),
        (False, "__index_level_0__", [f"row {i}" for i in ORDER], "the index of a data frame"),
    ],
)
def test_an_index_is_no_feature(tmp_path: Path, first: bool, name: str, values: Any, reason: str) -> None:
    index = {name: values}
    columns = FEATURES | {"label": LABELS}
    made = report(tmp_path, index | columns if first else columns | index)
    assert made.store.features == 4
    assert made.store.data["columns"] == ["a", "b", "c", "d"]
    assert made.store.data["left_out"] == {name: reason}
    assert f"columns: a, b, c, d; without {name} ({reason})" in made.lines()
    assert made.to_json()["columns"] == ["a", "b", "c", "d"]


def test_an_index_that_pandas_gave_a_name_is_no_feature(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FEATURES | {"label": LABELS}).rename_axis("plant").iloc[ORDER]
    made = report(tmp_path, pa.Table.from_pandas(frame))
    assert made.store.data["left_out"] == {"plant": "the index of a data frame"}


def test_columns_are_left_out_as_asked(tmp_path: Path) -> None:
    columns = FEATURES | {"label": LABELS, "id": ORDER, "name": ["x"] * ROWS}
    made = report(tmp_path, columns, exclude_columns="id,name")
    assert made.store.features == 4
    assert made.store.data["left_out"]["name"] == "excluded by data.exclude_columns"
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ConfigError, match=r"data.exclude_columns is 'nam'.*did you mean 'name'"):
        report(other, columns, exclude_columns="nam")


def test_a_column_without_a_name_inside_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a column without a name \('Unnamed: 4'.*data.exclude_columns"):
        report(tmp_path, FEATURES | {"Unnamed: 4": ORDER, "label": LABELS})


def test_many_columns_are_shortened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {f"f{i}": RANDOM.normal(size=ROWS) for i in range(20)}
    pq.write_table(pa.table(columns | {"id": ORDER, "label": LABELS}), tmp_path / "a.parquet")
    assert main(["features", f"arrays:{tmp_path / 'a.parquet'}", str(tmp_path / "store")]) == 0
    printed = capsys.readouterr().out
    assert "columns: f0, f1, f2, f3 … f17, f18, f19, id (21 in all)\n" in printed, "an id that counts nothing is told"


def test_lists_are_one_column(tmp_path: Path) -> None:
    lists = np.stack(list(FEATURES.values()), axis=1).tolist()
    made = report(tmp_path, {"features": lists, "label": LABELS, "id": ORDER})
    assert made.store.features == 4
    assert "columns: features" in made.lines()

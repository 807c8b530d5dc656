"""kNN against a search by hand, with k chosen by the validation rows."""

from pathlib import Path

import numpy as np
import pytest

from mntrain.baselines.nearest import CANDIDATES
from mntrain.crossval.baselines import knn
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.data.tables import TableData


@pytest.fixture(params=range(6))
def data(request: pytest.FixtureRequest, tmp_path: Path) -> TableData:
    random = np.random.default_rng(request.param)
    x = random.normal(size=(120, 3)) * [1, 50, 0.01]
    y = x[:, 0] + x[:, 1] / 50 + random.normal(size=120) * 0.3
    lines = ["a,b,c,y", *(",".join(map(str, (*row, value))) for row, value in zip(x, y, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    loaded = load_data(DataConfig(source="table", path=str(tmp_path / "rows.csv"), folds=4, validation_fraction=0.3))
    assert isinstance(loaded, TableData)
    return loaded


def test_errors_are_those_of_a_search_by_hand(data: TableData) -> None:
    mean, std = data.train.inputs.astype(float).mean(0), data.train.inputs.astype(float).std(0)
    low, spread = data.train.targets.astype(float).mean(), data.train.targets.astype(float).std()

    def error(name: str, count: int) -> float:
        rows = data.part(name)
        queries, known = (rows.inputs - mean) / std, (data.train.inputs - mean) / std
        near = np.argsort(np.linalg.norm(queries[:, None] - known, axis=-1), axis=1)[:, :count]
        guess = ((data.train.targets - low) / spread)[near].mean(axis=1)
        return float(np.mean((guess - (rows.targets - low) / spread) ** 2))

    expected = min((count for count in CANDIDATES if count <= len(data.train)), key=lambda k: error("validation", k))
    found = knn(data)
    assert found["neighbors"] == expected
    assert found["mse"] == pytest.approx(error("test", expected), rel=1e-5)

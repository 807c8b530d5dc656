"""`mntrain evaluate` on rows that the model has never seen: figures, baselines, files, and data that has moved."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.neighbors import KNeighborsRegressor

from mntrain.artifact import TableArtifact, load_artifact
from mntrain.commands.cli import main
from mntrain.config import load_experiment
from mntrain.data.tables import TableData, TableSet
from mntrain.errors import DataError
from mntrain.evaluation.answers import ValueAnswers
from mntrain.evaluation.labelled import LabelledData
from mntrain.evaluation.session import check_finite
from mntrain.training.artifact_data import load_data
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

FAST = ["--training.epochs", "2", "--meta_neighborhoods.entries", "8", "--training.batch_size", "16"]
FAST += ["--backbone.layers", "1", "--backbone.units", "4"]


def make_rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 2)) * [1, 30]
    return x, np.sin(x[:, 0]) * 40 + x[:, 1] + 100


def write_rows(file: Path, columns: dict[str, Any]) -> Path:
    lines = [",".join(columns), *(",".join(str(cell) for cell in row) for row in zip(*columns.values(), strict=True))]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regressor of y from a and b, whose data has moved to ``moved.csv`` since."""
    path = tmp_path_factory.mktemp("rows")
    x, y = make_rows(90, 0)
    write_rows(path / "known.csv", {"a": x[:, 0], "b": x[:, 1], "y": y})
    words = ["--data.path", str(path / "known.csv"), "--name", "rows", *FAST]
    fit(load_experiment("uci", words), FitOptions(runs=path, quiet=True))
    (path / "known.csv").rename(path / "moved.csv")
    return path


def estimates(artifact: TableArtifact, inputs: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        values = artifact.model(artifact.preprocessing(torch.from_numpy(inputs))).values.double().numpy()
    scale = artifact.config.standardization
    return np.asarray(values * np.asarray(scale.target_std) + np.asarray(scale.target_mean))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["evaluate", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_new_rows_are_found_by_the_names_of_their_columns(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new file has the columns in another order, and one more."""
    x, y = make_rows(40, 1)
    new = write_rows(tmp_path / "new.csv", {"y": y, "b": x[:, 1], "other": x[:, 1] * 3, "a": x[:, 0]})
    found = run(capsys, str(trained / "rows" / "artifact"), "--data.path", str(new), "--output", str(tmp_path / "out"))
    artifact = load_artifact(trained / "rows" / "artifact")
    assert isinstance(artifact, TableArtifact)
    expected, truth = estimates(artifact, x.astype(np.float32)), y.astype(np.float32)
    assert found["examples"] == 40
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((expected - truth) ** 2)), rel=1e-5)
    assert found["mse"] == pytest.approx((found["rmse"] / artifact.config.standardization.target_std) ** 2, rel=1e-4)
    assert found["mae"] == pytest.approx(mean_absolute_error(truth, expected), rel=1e-5)
    assert found["r2"] == pytest.approx(r2_score(truth, expected), rel=1e-4)
    assert found["targets"]["y"]["mae"] == found["mae"]
    with (tmp_path / "out" / "predictions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    np.testing.assert_allclose([float(row["y estimate"]) for row in rows], expected, rtol=1e-5)
    np.testing.assert_allclose([float(row["y residual"]) for row in rows], truth - expected, rtol=1e-3, atol=1e-3)
    assert [row["example"] for row in rows[:2]] == ["row 0", "row 1"]
    assert (tmp_path / "out" / "scatter.png").stat().st_size > 1000
    assert (tmp_path / "out" / "per_target.csv").read_text().splitlines()[0] == "target,mse,unadapted_mse,rmse,mae,r2"


def test_a_column_that_the_model_takes_must_be_there(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_rows(tmp_path / "new.csv", {"a": [1.0, 2.0], "c": [1.0, 5.0], "y": [1.0, 3.0]})
    assert main(["evaluate", str(trained / "rows" / "artifact"), "--data.path", str(new)]) == 1
    assert "'b'" in capsys.readouterr().err


def test_answers_that_are_no_numbers_are_refused() -> None:
    rows = TableSet(inputs=np.ones((2, 1), np.float32), targets=np.ones(2, np.float32))
    data = LabelledData(examples=rows, split="all", places=("row 0", "row 1"))
    answers = ValueAnswers(values=np.array([1.0, np.inf], np.float32), unadapted_values=None)
    with pytest.raises(DataError, match="answers to 1 of 2 rows are not finite, the first to row 1"):
        check_finite(answers, data)


def test_baselines_need_the_data_of_the_run_and_are_those_of_scikit_learn(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact_path = str(trained / "rows" / "artifact")
    x, y = make_rows(40, 2)
    new = str(write_rows(tmp_path / "new.csv", {"a": x[:, 0], "b": x[:, 1], "y": y}))
    assert main(["evaluate", artifact_path, "--data.path", new, "--baselines"]) == 1
    assert "--data-path" in capsys.readouterr().err
    moved = ["--data-path", str(trained / "moved.csv")]
    found = run(capsys, artifact_path, "--data.path", new, "--baselines", *moved)
    assert found["new_data"]["equal_to"]["training"] == 0
    artifact = load_artifact(artifact_path)
    data = load_data(artifact.config, trained / "moved.csv")
    assert isinstance(data, TableData)
    _check_baselines(data, x.astype(np.float32), y.astype(np.float32), found["baselines"])


def _check_baselines(data: TableData, x: np.ndarray, y: np.ndarray, found: dict[str, Any]) -> None:
    train, validation = data.train, data.validation
    mean, std = train.inputs.astype(float).mean(0), train.inputs.astype(float).std(0)
    knn = KNeighborsRegressor(found["knn"]["neighbors"]).fit((train.inputs - mean) / std, train.targets)
    assert found["knn"]["targets"]["y"]["mae"] == pytest.approx(
        mean_absolute_error(y, knn.predict((x - mean) / std)), rel=1e-4
    )
    assert found["knn"]["mse"] == pytest.approx(found["knn"]["targets"]["y"]["mse"])
    boosted = HistGradientBoostingRegressor(max_iter=500, early_stopping=False, random_state=0)
    low, spread = train.targets.astype(float).mean(), train.targets.astype(float).std()
    boosted.fit(train.inputs, ((train.targets - low) / spread).astype(np.float32))
    errors = [
        np.mean((one * spread + low - validation.targets) ** 2) for one in boosted.staged_predict(validation.inputs)
    ]
    rounds = int(np.argmin(errors)) + 1
    assert found["gradient_boosting"]["rounds"] == rounds
    answers = list(boosted.staged_predict(x))[rounds - 1] * spread + low
    assert found["gradient_boosting"]["targets"]["y"]["mae"] == pytest.approx(mean_absolute_error(y, answers), rel=1e-4)


def test_data_of_the_run_that_has_moved_is_found_where_it_is_said(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = str(trained / "rows" / "artifact")
    assert main(["evaluate", artifact]) == 1
    assert "--data-path" in capsys.readouterr().err
    found = run(capsys, artifact, "--data-path", str(trained / "moved.csv"))
    stored = json.loads((trained / "rows" / "metrics.json").read_text())["test"]
    assert {name: found[name] for name in ("mse", "rmse", "unadapted_mse")} == {
        name: pytest.approx(stored[name]) for name in ("mse", "rmse", "unadapted_mse")
    }
    assert main(["evaluate", artifact, "--data-path", str(trained / "moved.csv")]) == 0
    out = capsys.readouterr().out
    assert "before adaptation" in out
    assert "R²" in out


def test_the_runs_own_rows_are_recognised(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact, moved = str(trained / "rows" / "artifact"), str(trained / "moved.csv")
    found = run(capsys, artifact, "--data.path", moved, "--baselines", "--data-path", moved)
    data = load_data(load_artifact(artifact).config, moved)
    assert found["new_data"]["equal_to"] == {"samples": 18, "samples_of": 18, "training": len(data.train)}


def test_classes_of_rows_are_matched_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = make_rows(90, 3)
    kinds = np.where(y > 120, "high", np.where(y > 85, "middle", "low"))
    known = write_rows(tmp_path / "known.csv", {"a": x[:, 0], "b": x[:, 1], "kind": kinds})
    words = ["--data.path", str(known), "--data.target_column", "kind", "--name", "kinds", *FAST]
    fit(load_experiment("uci", [*words, "--family", "vanilla"]), FitOptions(runs=tmp_path, quiet=True))
    artifact = str(tmp_path / "kinds" / "artifact")
    new = write_rows(
        tmp_path / "new.csv", {"kind": ["middle", "low", "middle"], "a": [0.1, 0.2, 0.3], "b": [9, -50, 4]}
    )
    found = run(capsys, artifact, "--data.path", str(new))
    assert {name: one["support"] for name, one in found["classes"].items()} == {"high": 0, "low": 1, "middle": 2}
    single = write_rows(tmp_path / "single.csv", {"kind": ["low", "low"], "a": [0.1, 0.2], "b": [-60, -50]})
    assert run(capsys, artifact, "--data.path", str(single))["classes"]["low"]["support"] == 2
    strange = write_rows(tmp_path / "strange.csv", {"kind": ["low", "odd"], "a": [0.1, 0.2], "b": [-60, -50]})
    assert main(["evaluate", artifact, "--data.path", str(strange)]) == 1
    assert "'odd' (1 rows)" in capsys.readouterr().err


def test_two_targets_a_category_and_missing_values_on_the_way_from_new_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)

    def columns(count: int) -> dict[str, Any]:
        x, kind = random.normal(size=count), random.choice(["oak", "fir"], size=count)
        shift = np.where(kind == "oak", 2.0, -1.0)
        holed = ["" if number % 7 == 3 else f"{value:.6f}" for number, value in enumerate(x)]
        return {"x": holed, "kind": kind, "north": x * 5 + shift, "east": 100 - x + shift}

    known = write_rows(tmp_path / "known.csv", columns(80))
    words = ["--data.path", str(known), "--data.target_column", "[north, east]", "--name", "two", *FAST]
    fit(load_experiment("uci", words), FitOptions(runs=tmp_path, quiet=True))
    fresh = columns(20)
    fresh["kind"][5] = "elm"
    new = write_rows(tmp_path / "new.csv", fresh | {"id": list(range(20))})
    path = tmp_path / "two" / "artifact"
    moved = ["--baselines", "--output", str(tmp_path / "out")]
    found = run(capsys, str(path), "--data.path", str(new), *moved)
    artifact = load_artifact(path)
    assert isinstance(artifact, TableArtifact)
    numbers = [float(cell) if cell else np.nan for cell in fresh["x"]]
    codes = [{"fir": 0.0, "oak": 1.0}.get(str(kind), -1.0) for kind in fresh["kind"]]
    expected = estimates(artifact, np.column_stack([numbers, codes]).astype(np.float32))
    for number, name in enumerate(("north", "east")):
        truth = np.asarray(fresh[name]).astype(np.float32)
        assert found["targets"][name]["mae"] == pytest.approx(mean_absolute_error(truth, expected[:, number]), rel=1e-4)
        assert found["targets"][name]["r2"] == pytest.approx(r2_score(truth, expected[:, number]), rel=1e-3)
        assert found["baselines"]["gradient_boosting"]["targets"][name]["rmse"] > 0
    assert found["mse"] == pytest.approx(np.mean([one["mse"] for one in found["targets"].values()]), rel=1e-4)
    notes = found["new_data"]["notes"]
    assert notes[0] == "column 'x': 3 missing"
    assert "elm" in notes[1]
    assert notes[2] == "columns that the model does not take: 'id'"
    heading = (tmp_path / "out" / "predictions.csv").read_text().splitlines()[0].split(",")
    assert heading[:4] == ["example", "north", "north estimate", "north residual"]
    renamed = write_rows(
        tmp_path / "renamed.csv", {"n": fresh["north"], **{k: fresh[k] for k in ("x", "kind", "east")}}
    )
    again = run(capsys, str(path), "--data.path", str(renamed), "--data.target_column", "[n, east]")
    assert again["targets"]["north"] == found["targets"]["north"]

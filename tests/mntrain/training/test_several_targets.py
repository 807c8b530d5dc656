"""Runs that estimate several targets at once: figures of each, artifact, evaluation and report.

Shapes: N rows, T 2 targets.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mntrain.analysis.estimates import Estimates
from mntrain.analysis.sections.estimates import estimates_section
from mntrain.artifact import TableArtifact, load_artifact
from mntrain.commands.cli import main
from mntrain.config import load_experiment
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.models.base import Estimate
from mntrain.training.artifact_data import evaluate as evaluate_artifact
from mntrain.training.evaluation import MSE, EvaluationPlan, evaluate
from mntrain.training.fit import fit
from mntrain.training.regression import regression_figures
from mntrain.training.run_folder import FitOptions

TARGETS = ("latitude", "price")
MUSIC = Path(__file__).parents[4] / "shared" / "data" / "uci-music68" / "music68.parquet"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of both families on a table of three columns and two targets of other units."""
    folder, random = tmp_path_factory.mktemp("several"), np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    latitude, price = 50 + 3 * np.sin(2 * x[:, 0]), 5000 + 800 * x[:, 1] * x[:, 2]
    table = np.column_stack([x * [1.0, 100.0, 0.01], latitude, price])
    np.savetxt(folder / "rows.csv", table, delimiter=",", header="a,b,c,latitude,price", comments="")
    for family in ("vanilla", "meta_neighborhoods"):
        words = ["--data.path", str(folder / "rows.csv"), "--data.target_column", "[latitude, price]"]
        words += ["--family", family, "--name", family, "--training.epochs", "6", "--training.learning_rate", "0.01"]
        words += ["--backbone.layers", "2", "--backbone.units", "16", "--meta_neighborhoods.entries", "20"]
        fit(load_experiment("uci", words), FitOptions(runs=folder, quiet=True))
    return folder


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_every_target_has_its_errors_in_both_units(runs: Path, family: str) -> None:
    test = json.loads((runs / family / "metrics.json").read_text())["test"]
    assert set(test) == {"examples", "mse", "loss", "unadapted_mse", "r2", "targets"}
    assert list(test["targets"]) == list(TARGETS)
    artifact = load_artifact(runs / family / "artifact")
    assert isinstance(artifact, TableArtifact)
    assert artifact.config.targets == TARGETS

    # The samples are all test rows, in the table's own units: the figures again, without the code that made them.
    scale, targets = artifact.config.standardization, artifact.samples.targets.astype(np.float64)
    assert targets.shape == (test["examples"], 2)
    with torch.inference_mode():
        found = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.inputs)))
    for values, adapted in ((found.values, True), (found.unadapted_values, False)):
        if values is None:
            assert family == "vanilla"
            assert test["unadapted_mse"] is None
            continue
        wrong = values.numpy().astype(np.float64) * scale.target_std + scale.target_mean - targets
        errors = (wrong**2).mean(axis=0)
        of_targets = errors / np.square(scale.target_std)
        assert test["mse" if adapted else "unadapted_mse"] == pytest.approx(of_targets.mean(), rel=1e-4)
        for position, name in enumerate(TARGETS):
            figures = test["targets"][name]
            assert figures["mse" if adapted else "unadapted_mse"] == pytest.approx(of_targets[position], rel=1e-4)
            if adapted:
                assert figures["rmse"] == pytest.approx(np.sqrt(errors[position]), rel=1e-4)
                r2 = 1 - errors[position] / targets[:, position].var()
                assert figures["r2"] == pytest.approx(r2, rel=1e-3, abs=1e-4)
    assert test["r2"] == pytest.approx(np.mean([test["targets"][name]["r2"] for name in TARGETS]))
    assert test["targets"]["price"]["rmse"] > 50 * test["targets"]["latitude"]["rmse"], "each has its own units"
    assert test["mse"] == pytest.approx(test["loss"])


def test_every_target_starts_from_its_own_scale(runs: Path) -> None:
    artifact = load_artifact(runs / "meta_neighborhoods" / "artifact")
    assert isinstance(artifact, TableArtifact)
    scale = artifact.config.standardization
    assert scale.target_mean == (pytest.approx(50, abs=1), pytest.approx(5000, abs=200))
    assert scale.target_std == (pytest.approx(3 / np.sqrt(2), rel=0.2), pytest.approx(800, rel=0.3))
    assert artifact.model.state_dict()["values"].shape == (20, 2)


def test_evaluate_finds_the_figures_of_every_target(runs: Path) -> None:
    folder = runs / "meta_neighborhoods"
    test = json.loads((folder / "metrics.json").read_text())["test"]
    found = evaluate_artifact(folder / "artifact")
    assert found["mse"] == pytest.approx(test["mse"])
    for name in TARGETS:
        assert found["targets"][name] == pytest.approx(test["targets"][name])


def test_fit_prints_every_target(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data.path", str(runs / "rows.csv"), "--data.target_column", "[latitude, price]"]
    words += ["--training.epochs", "1", "--backbone.units", "4", "--meta_neighborhoods.entries", "5"]
    assert main(["fit", "uci", *words, "--runs", str(tmp_path), "--name", "short"]) == 0
    lines = capsys.readouterr().out.splitlines()
    test = json.loads((tmp_path / "short" / "metrics.json").read_text())["test"]
    first = next(number for number, line in enumerate(lines) if line.startswith(f"test mse {test['mse']:.4f} ("))
    assert lines[first + 1 : first + 3] == [
        f"  {name}: mse {test['targets'][name]['mse']:.4f}, {test['targets'][name]['rmse']:.4g} in its own units (rmse)"
        for name in TARGETS
    ]


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_the_report_has_the_errors_of_every_target(runs: Path, family: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(runs / family), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["estimates"]
    test = json.loads((runs / family / "metrics.json").read_text())["test"]
    assert numbers["mse"] == pytest.approx(test["mse"], rel=1e-4)
    page = (runs / family / "report.html").read_text(encoding="utf-8")
    for name in TARGETS:
        assert numbers["targets"][name]["mse"] == pytest.approx(test["targets"][name]["mse"], rel=1e-4)
        assert f"Estimate of {name} against the truth" in page
        assert f"<td>{name}</td><td>" in page
        if family == "meta_neighborhoods":
            before = numbers["targets"][name]["unadapted_mse"]
            assert before == pytest.approx(test["targets"][name]["unadapted_mse"], rel=1e-4)
    assert "<dd>latitude, price</dd>" in page


class Stub(nn.Module):
    """Answers 0 for the first target and the row for the second, and the row for both before adaptation."""

    def forward(self, rows: Tensor) -> Estimate:
        return Estimate(values=torch.cat([0 * rows, rows], dim=1), unadapted_values=rows.expand(-1, 2))


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_figures_of_targets_do_not_depend_on_the_batch_size(batch_size: int) -> None:
    inputs = np.arange(5, dtype=np.float32)[:, None]
    targets = np.concatenate([inputs, inputs], axis=1)
    rows = TableSet(inputs=inputs, targets=targets)
    preprocessing = nn.BatchNorm1d(1, eps=0.0).eval()  # it has buffers, and changes nothing
    found = evaluate(Stub(), preprocessing, rows, EvaluationPlan(metric=MSE, batch_size=batch_size))
    assert found.target_scores == (pytest.approx(6.0), 0.0)
    assert found.unadapted_target_scores == (0.0, 0.0)
    assert (found.score, found.loss, found.unadapted_score) == (pytest.approx(3.0), pytest.approx(3.0), 0.0)
    scale = StandardizationConfig(mean=(0.0,), std=(1.0,), target_mean=(0.0, 0.0), target_std=(10.0, 2.0))
    unscaled = TableSet(inputs=inputs, targets=targets * np.array([10, 2], np.float32))
    figures = regression_figures(found, unscaled, scale, ("p", "q"))
    wrong = {"mse": 6.0, "unadapted_mse": 0.0, "rmse": 10 * np.sqrt(6), "r2": -2.0}
    assert figures["targets"]["p"] == pytest.approx(wrong)
    assert figures["targets"]["q"] == {"mse": 0.0, "unadapted_mse": 0.0, "rmse": 0.0, "r2": 1.0}
    assert figures["r2"] == pytest.approx(-0.5)


def test_a_target_of_one_value_has_no_share_of_its_variance() -> None:
    rows = TableSet(inputs=np.zeros((3, 1), np.float32), targets=np.array([[1, 5], [2, 5], [3, 5]], np.float32))
    scale = StandardizationConfig.from_rows(rows)
    found = evaluate(Stub(), nn.BatchNorm1d(1).eval(), scale.targets(rows), EvaluationPlan(metric=MSE, batch_size=2))
    figures: dict[str, Any] = regression_figures(found, rows, scale, ("p", "q"))
    assert figures["targets"]["p"]["r2"] == pytest.approx(0.0, abs=1e-6)
    assert figures["targets"]["q"]["r2"] is None
    assert figures["r2"] is None


@pytest.mark.skipif(not MUSIC.is_file(), reason="the table of music is not beside this checkout")
def test_places_of_real_music_are_estimated(tmp_path: Path) -> None:
    words = ["--data.path", str(MUSIC), "--data.target_column", "[latitude, longitude]", "--training.epochs", "3"]
    words += ["--backbone.layers", "2", "--backbone.units", "16", "--meta_neighborhoods.entries", "20"]
    result = fit(load_experiment("uci", words), FitOptions(runs=tmp_path, quiet=True))
    assert result is not None
    figures = result["test"]["targets"]
    assert list(figures) == ["latitude", "longitude"]
    assert all(0 < figures[name]["mse"] < 1.2 for name in figures)
    assert 10 < figures["latitude"]["rmse"] < figures["longitude"]["rmse"] < 60, "degrees"


def test_the_first_of_many_targets_are_drawn() -> None:
    names, values = tuple("abcdefghi"), torch.arange(27.0).reshape(3, 9)
    estimates = Estimates(total=3, targets=values, values=values + 1, unadapted=None, attention=None)
    section = estimates_section(SimpleNamespace(targets=names), estimates)  # type: ignore[arg-type]
    assert [figure.caption for figure in section.figures] == [
        f"Estimate of {name} against the truth, mse 1.0000" for name in names[:8]
    ]
    assert section.table is not None
    assert [row[0] for row in section.table.rows] == list(names)
    assert "The first 8 of 9 targets are drawn." in section.text[0]

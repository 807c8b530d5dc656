"""Whole runs on rows: regression and classification, their artifacts, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mntrain.artifact import TableArtifact, load_artifact
from mntrain.commands.cli import main
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.errors import ArtifactError, CheckpointError, ConfigError
from mntrain.training.artifact_data import evaluate
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

BreakOff = Callable[[ExperimentConfig, FitOptions, int], None]
SMALL = ["--backbone.layers", "2", "--backbone.units", "16", "--meta_neighborhoods.entries", "20"]
SMALL += ["--data.target_column", "price"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smooth function of three columns of different scales, in units far from 0."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3))
    price = 5000 + 800 * (np.sin(2 * x[:, 0]) + 0.5 * x[:, 1])
    file = tmp_path_factory.mktemp("table") / "rows.csv"
    np.savetxt(file, np.column_stack([x * [1.0, 100.0, 0.01], price]), delimiter=",", header="a,b,c,price", comments="")
    return file


@pytest.fixture(scope="module")
def regressors(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of both families that estimate, named after them."""
    folder = tmp_path_factory.mktemp("regressors")
    for family in ("vanilla", "meta_neighborhoods"):
        overrides = [*SMALL, "--data.path", str(table), "--family", family, "--name", family]
        fit(
            load_experiment("uci", [*overrides, "--training.epochs", "15", "--training.learning_rate", "0.01"]),
            FitOptions(runs=folder, quiet=True),
        )
    return folder


@pytest.fixture
def artifact(regressors: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(regressors / "meta_neighborhoods" / "artifact", tmp_path / "artifact"))


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_a_regressor_reports_its_error_in_both_units(regressors: Path, family: str) -> None:
    result = json.loads((regressors / family / "metrics.json").read_text())
    test = result["test"]
    assert set(test) == {"examples", "mse", "loss", "unadapted_mse", "rmse", "r2"}
    assert test["examples"] == 60
    assert test["mse"] == test["loss"] < 0.7, "far better than the mean, whose error is about 1"
    assert (test["unadapted_mse"] is None) == (family == "vanilla")
    artifact = load_artifact(regressors / family / "artifact")
    assert isinstance(artifact, TableArtifact)
    assert (artifact.config.columns, artifact.config.target, artifact.config.labels) == (("a", "b", "c"), "price", None)

    # The samples are all test rows, in the table's own units: the figures again, without the code that made them.
    scale = artifact.config.standardization
    with torch.inference_mode():
        values = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.inputs))).values.numpy()
    wrong = values.astype(np.float64) * scale.target_std + scale.target_mean - artifact.samples.targets
    assert test["rmse"] == pytest.approx(math.sqrt((wrong**2).mean()), rel=1e-4)
    assert test["r2"] == pytest.approx(
        1 - (wrong**2).mean() / artifact.samples.targets.astype(np.float64).var(), rel=1e-4
    )


def test_the_epoch_with_the_lowest_error_is_kept(regressors: Path) -> None:
    lines = (regressors / "vanilla" / "metrics.csv").read_text().splitlines()
    column = lines[0].split(",").index("validation_mse")
    errors = [float(line.split(",")[column]) for line in lines[1:]]
    result = json.loads((regressors / "vanilla" / "metrics.json").read_text())
    assert result["best_epoch"] == 1 + int(np.argmin(errors))
    assert result["validation"]["mse"] == pytest.approx(min(errors))


def test_evaluate_finds_the_figures_of_the_run(
    regressors: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = regressors / "meta_neighborhoods"
    moved = Path(shutil.copy(table, tmp_path / "moved.csv"))
    assert main(["evaluate", str(folder / "artifact"), "--json", "--data-path", str(moved)]) == 0
    found, test = json.loads(capsys.readouterr().out), json.loads((folder / "metrics.json").read_text())["test"]
    assert {key: found[key] for key in test} == pytest.approx(test)
    assert evaluate(folder / "artifact", data_path=moved) == pytest.approx(test)
    assert main(["evaluate", str(folder / "artifact")]) == 0
    assert capsys.readouterr().out.startswith(f"test mse {test['mse']:.4f} ({test['unadapted_mse']:.4f} before")
    moved.write_text(moved.read_text().replace("\n", "\n0,0,0,4000\n", 1))
    assert main(["evaluate", str(folder / "artifact"), "--data-path", str(moved)]) == 1
    assert "rows of" in capsys.readouterr().err


def test_rows_of_classes_are_told_apart(tmp_path: Path) -> None:
    words = ["--data.rows", "400", "--backbone.name", "mlp", *SMALL[:4], "--training.epochs", "2"]
    for family in ("vanilla", "meta_neighborhoods"):
        result = fit(
            load_experiment("spiral", [*words, "--family", family, "--name", family]),
            FitOptions(runs=tmp_path, quiet=True),
        )
        assert result is not None
        counts = {"corrected", "broken"} if family == "meta_neighborhoods" else set()
        assert set(result["test"]) == {"examples", "accuracy", "loss", "unadapted_accuracy"} | counts
        artifact = load_artifact(tmp_path / family / "artifact")
        assert isinstance(artifact, TableArtifact)
        assert artifact.config.labels == ("first", "second")
        assert artifact.samples.targets.dtype == np.int64
        assert main(["evaluate", str(tmp_path / family / "artifact")]) == 0


@pytest.mark.parametrize(
    ("start", "epochs"),
    [
        pytest.param([], 1, id="paper"),
        pytest.param(["--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "1"], 1, id="at-the-start"),
        pytest.param(["--meta_neighborhoods.init", "data"], 2, id="after-the-start"),
    ],
)
def test_a_broken_off_regression_resumes_to_the_same_weights(
    start: list[str], epochs: int, table: Path, tmp_path: Path, break_off: BreakOff
) -> None:
    words = [*SMALL, "--data.path", str(table), "--training.epochs", "3", "--name", "run", *start]
    config = load_experiment("uci", words)
    fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))
    break_off(config, FitOptions(runs=tmp_path / "broken", quiet=True), epochs)
    fit(config, FitOptions(runs=tmp_path / "broken", resume=True, quiet=True))
    whole, broken = (
        load_artifact(tmp_path / name / "run" / "artifact").model.state_dict() for name in ("whole", "broken")
    )
    assert all(torch.equal(whole[key], broken[key]) for key in whole)


def test_a_regression_whose_rows_have_changed_is_not_resumed(table: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(table, tmp_path / "rows.csv"))
    config = load_experiment("uci", [*SMALL, "--data.path", str(file), "--training.epochs", "1", "--name", "run"])
    fit(config, FitOptions(runs=tmp_path, quiet=True))
    file.write_text(file.read_text().replace("\n", "\n0,0,0,4000\n", 1))
    with pytest.raises(CheckpointError, match=r"data of run .* has changed"):
        fit(config, FitOptions(runs=tmp_path, resume=True, quiet=True))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--family", "maxl"], "only tells classes apart"),
        (["--backbone.name", "identity"], "a perceptron estimates"),
        (["--backbone.name", "convnet4"], "a perceptron estimates"),
        (["--backbone.name", "convnet4", "--data.target", "class", "--data.target_column", "kind"], "rows of 4 column"),
        (["--augmentation.flip", "true"], "augmentation changes images"),
        (["--meta_neighborhoods.steps", "3"], "meta_neighborhoods.steps is 3"),
        (["--meta_neighborhoods.step_size_form", "per_parameter"], "'per_parameter'"),
    ],
)
def test_settings_that_rows_cannot_have_are_refused_in_one_sentence(
    table: Path, tmp_path: Path, words: list[str], part: str
) -> None:
    file = tmp_path / "rows.csv"
    lines = table.read_text().splitlines()
    file.write_text("\n".join([f"{lines[0]},kind", *(f"{line},{'uv'[n % 2]}" for n, line in enumerate(lines[1:]))]))
    target = [] if "kind" in words else ["--data.target_column", "price"]
    if "kind" not in words:
        file = table
    with pytest.raises(ConfigError) as caught:
        fit(
            load_experiment("uci", ["--data.path", str(file), *target, *words, "--name", "run"]),
            FitOptions(runs=tmp_path / "runs", quiet=True),
        )
    assert part in str(caught.value)
    assert not (tmp_path / "runs").exists(), "nothing is written"


def edit(artifact: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = artifact / "config.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda values: values["input"].update(columns=["a", "b"]), "standardization has 3 column(s), the input 2"),
        (lambda values: values["input"].update(columns="abc"), "expected a list of names"),
        (lambda values: values.pop("standardization"), "standardization"),
        (lambda values: values["standardization"].update(std=[1.0, 0.0, 1.0]), "above 0"),
        (lambda values: values.update(labels=["one"]), "at least 2"),
        (lambda values: values["experiment"]["backbone"].update(units=17), "do not fit its config.json"),
        (lambda values: values["experiment"].update(family="maxl", maxl={}), "no model that can be built"),
    ],
)
def test_a_table_artifact_that_contradicts_itself_is_refused(
    artifact: Path, change: Callable[[dict[str, Any]], object], part: str
) -> None:
    edit(artifact, change)
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact)
    assert part in str(caught.value)


def test_samples_of_another_artifact_are_refused(artifact: Path) -> None:
    file = artifact / "samples.safetensors"
    arrays = load_file(str(file))
    name = next(name for name, values in arrays.items() if values.ndim == 2)
    save_file(arrays | {name: np.ascontiguousarray(arrays[name][:, :2])}, str(file))
    with pytest.raises(ArtifactError, match="not of one artifact"):
        load_artifact(artifact)

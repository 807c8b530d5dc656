"""A table with two targets, a category and missing numbers: training, artifact, and rows laid out anew."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mntrain.artifact import TableArtifact, load_artifact
from mntrain.config import load_experiment
from mntrain.errors import ArtifactError
from mntrain.evaluation.new_rows import load_new_rows
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

COLORS = ("blue", "green", "red")
COUNT = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch, and its table with semicolons, decimal commas and an index."""
    path = tmp_path_factory.mktemp("table")
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, COUNT))
    lines = [";a;color;b;lat;lon"]
    for row in range(COUNT):
        values = ["" if row % 9 == 0 else f"{a[row]:.4f}", "" if row == 3 else COLORS[row % 3], f"{b[row]:.4f}"]
        targets = [f"{50 + a[row] + row % 3:.4f}", f"{b[row] * 0.1:.4f}"]
        lines.append(";".join([str(row), *values, *targets]).replace(".", ","))
    (path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    words = ["--data.path", str(path / "rows.csv"), "--data.target_column", "[lat, lon]", "--name", "run"]
    words += ["--backbone.units", "8", "--meta_neighborhoods.entries", "10", "--training.epochs", "1"]
    fit(load_experiment("table", words), FitOptions(runs=path, quiet=True))
    return path


def load(folder: Path) -> TableArtifact:
    artifact = load_artifact(folder / "run" / "artifact")
    assert isinstance(artifact, TableArtifact)
    return artifact


def test_an_artifact_describes_columns_categories_and_targets(folder: Path) -> None:
    values = json.loads((folder / "run" / "artifact" / "config.json").read_text())
    assert values["schema"] == 3
    assert values["input"] == {"columns": ["a", "b", "color"], "categories": {"color": list(COLORS)}}
    assert (values["targets"], "target" in values, values["labels"]) == (["lat", "lon"], False, None)
    scale = values["standardization"]
    assert {key: len(value) for key, value in scale.items()} == {
        "mean": 2,
        "std": 2,
        "fill": 2,
        "target_mean": 2,
        "target_std": 2,
    }
    assert values["experiment"]["data"]["target_column"] == ["lat", "lon"]
    artifact = load(folder)
    assert artifact.config.to_dict() == values
    assert (artifact.config.numbers, artifact.config.target) == (("a", "b"), "lat, lon")
    assert np.isnan(artifact.samples.inputs).any(), "samples are kept as they are stored"


def test_new_rows_are_estimated_as_they_were_in_training(folder: Path) -> None:
    artifact = load(folder)
    reading = dataclasses.replace(artifact.config.experiment.data, path=str(folder / "rows.csv"))
    found = load_new_rows(artifact.config, reading).splits["all"]
    assert found.inputs[3, 2] == -1
    with torch.inference_mode():
        inputs = artifact.preprocessing(torch.from_numpy(found.inputs))
        assert inputs.shape == (COUNT, 5)
        assert inputs[3, 2:].tolist() == [0, 0, 0]
        assert torch.isfinite(inputs).all()
        assert artifact.model(inputs).values.shape == (COUNT, 2)
    stored = {row.tobytes() for row in found.inputs}
    assert all(row.tobytes() in stored for row in artifact.samples.inputs)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["input"]["categories"].update(color=["blue", "blue"]), "'color' are empty, or two of them"),
        (lambda v: v["input"]["categories"].update(a=["x"]), "last columns are not the categories"),
        (lambda v: v["input"].pop("categories"), r"2 column\(s\), the input 3"),
        (lambda v: v["standardization"].update(fill=[1.0]), "fill has 1 value"),
        (lambda v: v["standardization"].update(fill=None), "holds NaN among its numbers"),
        (lambda v: v.update(targets=["lat"]), r"target_mean of shape \(2,\) for 1 target"),
        (lambda v: v.update(labels=["p", "q"]), "several targets have labels"),
        (lambda v: v["input"]["categories"].update(color=["blue", "red"]), "do not fit"),
    ],
)
def test_a_wrong_description_is_refused(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    (tmp_path / "artifact").mkdir()
    for file in (folder / "run" / "artifact").iterdir():
        (tmp_path / "artifact" / file.name).write_bytes(file.read_bytes())
    config = tmp_path / "artifact" / "config.json"
    values = json.loads(config.read_text())
    change(values)
    config.write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=words):
        load_artifact(tmp_path / "artifact")


# The recipe's layers are of its perceptron; those of the configuration mean none.
NO_LAYERS = ["--backbone.name", "identity", "--backbone.layers", "3", "--backbone.units", "128"]


@pytest.mark.parametrize("backbone", [[], NO_LAYERS], ids=["mlp", "identity"])
def test_classes_of_rows_with_categories_start_from_data(backbone: list[str], tmp_path: Path) -> None:
    """Keys are features of rows, or the rows themselves with a column for each category; values are their classes."""
    random = np.random.default_rng(0)
    lines = ["a,color,kind"]
    for row, a in enumerate(random.normal(size=90)):
        lines.append(f"{a:.4f},{COLORS[row % 3]},{'warm' if a + row % 3 > 1 else 'cold'}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    words = ["--data.path", str(tmp_path / "rows.csv"), "--data.target_column", "kind", "--name", "run"]
    words += [*backbone, "--meta_neighborhoods.entries", "9", "--meta_neighborhoods.init", "data"]
    result = fit(load_experiment("table", [*words, "--training.epochs", "2"]), FitOptions(runs=tmp_path, quiet=True))
    assert result is not None
    start = result["start"]
    assert (start["warm_up"], start["entries"], sum(start["entries_of_classes"])) == (1, 9, 9)
    assert min(start["entries_of_classes"]) >= 1
    assert start["weight_change"] == pytest.approx(0.2, rel=0.02)
    assert result["best_epoch"] == 2, "an epoch without the dictionary is not the model"

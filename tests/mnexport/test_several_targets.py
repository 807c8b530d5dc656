"""Models of several targets: every form answers with a column for each, in that target's own units.

Shapes: B rows, F 4 columns, S 60 entries, T 3 targets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from mnexport.errors import ParityError
from mnexport.options import ExportOptions
from mnexport.parity.tolerance import Approximation, Tolerance
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mntrain.artifact import TableArtifact, current_versions, load_artifact, save_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.config import load_experiment
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.models.build import build_regressor

MEANS, DEVIATIONS = (50.0, -3.0, 9000.0), (2.0, 0.01, 700.0)
WORDS = ["--backbone.layers", "2", "--backbone.units", "12", "--meta_neighborhoods.entries", "60"]
WORDS += ["--meta_neighborhoods.similarity", "euclidean", "--meta_neighborhoods.temperature", "0.5"]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save an untrained model whose inner step moves every answer."""
    path = tmp_path_factory.mktemp("several") / "artifact"
    experiment, random = load_experiment("uci", WORDS), np.random.default_rng(0)
    torch.manual_seed(0)
    weights = build_regressor(experiment, 4, [(-1.0, 1.0)] * 3).state_dict()
    weights["keys"].normal_()
    weights["raw_step_size"].fill_(0.05)
    rows = TableSet(
        inputs=random.normal(size=(80, 4)).astype(np.float32),
        targets=(random.normal(size=(80, 3)) * DEVIATIONS + MEANS).astype(np.float32),
    )
    scale = StandardizationConfig(mean=(0.0,) * 4, std=(1.0,) * 4, target_mean=MEANS, target_std=DEVIATIONS)
    config = TableArtifactConfig(
        experiment=experiment,
        columns=("a", "b", "c", "d"),
        targets=("warm", "thin", "far"),
        labels=None,
        standardization=scale,
        split={"seed": 0, "counts": {}, "sha256": "0" * 64},
        metrics={},
        versions=current_versions(),
    )
    save_artifact(path, config, weights, rows)
    return path


@pytest.fixture
def trained(artifact: Path) -> TableArtifact:
    loaded = load_artifact(artifact)
    assert isinstance(loaded, TableArtifact)
    return loaded


def expected(trained: TableArtifact, *, adapted: bool = True) -> np.ndarray[Any, Any]:
    """The model's own answers [B, T], in the targets' own units."""
    with torch.inference_mode():
        found = trained.model(trained.preprocessing(torch.from_numpy(trained.samples.inputs)))
    values = found.values if adapted else found.unadapted_values
    return values.double().numpy() * DEVIATIONS + MEANS  # type: ignore[no-any-return]


def exported(artifact: Path, repository: Path, **changes: Any) -> Any:
    return export(ExportOptions(artifact=artifact, target=Target(repository=repository, name="m"), **changes))


def answers(path: Path, rows: np.ndarray[Any, Any], *outputs: str) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(found) for found in onnxruntime.InferenceSession(str(path)).run(outputs, {"row": rows})]


def apart(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """The largest difference of values [B, T], in deviations of their targets."""
    return float((np.abs(found - wanted) / DEVIATIONS).max(initial=0))


@pytest.mark.parametrize(("form", "allowed"), [("factored", 1e-4), ("low_rank", 1e-2)])
def test_every_target_is_answered_in_its_own_units(
    artifact: Path, trained: TableArtifact, repository: Path, form: str, allowed: float
) -> None:
    report = exported(artifact, repository, form=form, approximation_tolerance=1e-2)
    assert report.form == form
    if form == "low_rank":
        assert report.adaptation["rank"] < report.adaptation["full_rank"]
    wanted, rows = expected(trained), trained.samples.inputs
    assert (np.abs(wanted - expected(trained, adapted=False)) / DEVIATIONS).max(axis=0).min() > 0.05, "it adapts"
    for batch in (0, 1, 2, 80):
        (found,) = answers(report.path, rows[:batch], "value")
        assert found.shape == (batch, 3)
        assert apart(found, wanted[:batch]) <= allowed
    record = json.loads((repository / "m/1/export.json").read_text())
    assert record["outputs"] == [{"name": "value", "datatype": "FP32", "shape": [-1, 3]}]


def test_neighbors_are_told_with_a_value_of_each_target(
    artifact: Path, trained: TableArtifact, repository: Path
) -> None:
    report = exported(artifact, repository, form="factored", explain=5)
    names = ("value", "unadapted_value", "neighbor_indices", "neighbor_values")
    value, unadapted, indices, values = answers(report.path, trained.samples.inputs, *names)
    assert apart(value, expected(trained)) <= 1e-4
    assert apart(unadapted, expected(trained, adapted=False)) <= 1e-4
    entries = trained.model.state_dict()["values"].double().numpy() * DEVIATIONS + MEANS
    assert values.shape == (80, 5, 3)
    np.testing.assert_allclose(values, entries[indices], rtol=1e-5)


def test_the_network_without_adaptation_answers_every_target(
    artifact: Path, trained: TableArtifact, repository: Path
) -> None:
    report = exported(artifact, repository, vanilla=True)
    (found,) = answers(report.path, trained.samples.inputs, "value")
    assert apart(found, expected(trained, adapted=False)) <= 1e-4


def test_a_difference_counts_in_the_deviation_of_its_target() -> None:
    """0.05 is nothing for one target and five deviations of the other."""
    error, wanted = {"value": np.full((1, 2), 0.05)}, {"value": np.zeros((1, 2))}
    assert Tolerance(unit=(700.0, 700.0)).beyond(error, wanted) == 0
    assert Tolerance(unit=(700.0, 0.01)).beyond(error, wanted) == 1
    assert Approximation(limit=1e-3, unit=(700.0, 0.01)).beyond(error, wanted) == 1
    explained = {"value": np.zeros((1, 2)), "unadapted_value": np.full((1, 2), 0.05)}
    assert Tolerance(unit=(700.0, 0.01)).beyond(explained, explained) == 1
    assert str(Approximation(limit=0.01, unit=(700.0, 0.01))) == "0.01 deviations of the target"


def test_an_error_in_one_of_several_targets_is_seen(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target of the smallest deviation is off by a hundredth of it."""
    module = __import__("mnexport.parity.runners", fromlist=["unscaled"])
    original = module.unscaled
    monkeypatch.setattr(
        module, "unscaled", lambda values, scale: original(values, scale) + torch.tensor([0.0, 1e-4, 0.0])
    )
    with pytest.raises(ParityError):
        exported(artifact, repository, form="factored")

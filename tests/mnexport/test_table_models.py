"""Models of rows: regressors and classifiers are exported and answer in the target's own units."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from mnexport.commands.cli import main
from mnexport.errors import FormError
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mntrain.artifact import TableArtifact, load_artifact
from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

# Where the target starts and how far it goes, so that scaling is seen.
OFFSET, SPREAD = 500.0, 40.0


@pytest.fixture(scope="module")
def table_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a regressor with and without adaptation on 400 rows, and of a classifier of the plane."""
    folder = tmp_path_factory.mktemp("table-runs")
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 3)) * [1, 10, 100]
    target = OFFSET + SPREAD * np.sin(rows[:, 0]) * np.tanh(rows[:, 1] / 10) + rows[:, 2] / 20
    table = np.column_stack([rows, target])
    np.savetxt(folder / "table.csv", table, delimiter=",", header="a,b,c,y", comments="")
    small = ["--backbone.layers", "2", "--backbone.units", "16", "--training.epochs", "20"]
    for family in ("meta_neighborhoods", "vanilla"):
        words = ["--family", family, "--name", family, "--data.path", str(folder / "table.csv"), *small]
        fit(
            load_experiment("uci", [*words, "--meta_neighborhoods.entries", "200"]), FitOptions(runs=folder, quiet=True)
        )
    fit(
        load_experiment("spiral", ["--data.rows", "200", "--training.epochs", "5", "--name", "spiral"]),
        FitOptions(runs=folder, quiet=True),
    )
    return folder


def options(folder: Path, name: str, repository: Path, **changes: object) -> ExportOptions:
    target = Target(repository=repository, name="m")
    return ExportOptions(artifact=folder / name / "artifact", target=target, **changes)  # type: ignore[arg-type]


def answered(path: Path, rows: np.ndarray, output: str) -> np.ndarray:
    return np.asarray(onnxruntime.InferenceSession(str(path)).run([output], {"row": rows})[0])


def trained(artifact: TableArtifact, *, adapted: bool = True) -> np.ndarray:
    with torch.inference_mode():
        found = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.inputs)))
    values = found.values if adapted else found.unadapted_values
    scale = artifact.config.standardization
    return np.asarray(values * scale.target_std + scale.target_mean)[:, None]


def loaded(folder: Path, name: str) -> TableArtifact:
    artifact = load_artifact(folder / name / "artifact")
    assert isinstance(artifact, TableArtifact)
    return artifact


@pytest.mark.parametrize(
    ("form", "allowed"), [("factored", 1e-4), ("low_rank", 1e-3), ("auto", 1e-3)], ids=lambda value: str(value)
)
def test_a_regressor_answers_in_the_units_of_its_target(
    table_runs: Path, repository: Path, form: str, allowed: float
) -> None:
    report = export(options(table_runs, "meta_neighborhoods", repository, form=form))
    artifact = loaded(table_runs, "meta_neighborhoods")
    expected = trained(artifact)
    for batch in (1, 2, 7, len(expected)):
        found = answered(report.path, artifact.samples.inputs[:batch], "value")
        assert found.shape == (batch, 1)
        deviation = artifact.config.standardization.target_std
        np.testing.assert_allclose(found, expected[:batch], atol=allowed * deviation, rtol=0)
    assert answered(report.path, artifact.samples.inputs[:0], "value").shape == (0, 1)
    assert abs(expected.mean() - OFFSET) < SPREAD
    assert report.form == ("factored" if form == "factored" else "low_rank")
    if form != "factored":
        assert report.adaptation["rank"] < report.adaptation["full_rank"]


def test_a_regressor_that_started_from_rows_answers_alike(table_runs: Path, repository: Path, tmp_path: Path) -> None:
    words = ["--name", "data", "--data.path", str(table_runs / "table.csv"), "--meta_neighborhoods.init", "data"]
    words += ["--backbone.layers", "2", "--backbone.units", "16", "--meta_neighborhoods.entries", "40"]
    fit(load_experiment("uci", [*words, "--training.epochs", "1"]), FitOptions(runs=tmp_path, quiet=True))
    artifact = loaded(tmp_path, "data")
    expected = trained(artifact)
    scale = artifact.config.standardization.target_std
    assert np.abs(expected - trained(artifact, adapted=False)).max() > 0.05 * scale, "its dictionary acts"
    for form, allowed in (("factored", 1e-4), ("auto", 1e-3)):
        report = export(options(tmp_path, "data", repository, form=form))
        assert report.parity.passed
        found = answered(report.path, artifact.samples.inputs, "value")
        np.testing.assert_allclose(found, expected, atol=allowed * scale, rtol=0)


def test_adaptation_is_in_the_graph(table_runs: Path, repository: Path) -> None:
    artifact = loaded(table_runs, "meta_neighborhoods")
    report = export(options(table_runs, "meta_neighborhoods", repository, form="factored"))
    found = answered(report.path, artifact.samples.inputs, "value")
    plain = export(options(table_runs, "meta_neighborhoods", repository, vanilla=True))
    unadapted = answered(plain.path, artifact.samples.inputs, "value")
    np.testing.assert_allclose(unadapted, trained(artifact, adapted=False), atol=1e-2, rtol=0)
    assert np.abs(found - unadapted).max() > 0.1


def test_the_published_regressor_describes_itself(table_runs: Path, repository: Path) -> None:
    export(options(table_runs, "meta_neighborhoods", repository))
    config = text_format.Parse((repository / "m/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert [(item.name, item.data_type, list(item.dims)) for item in config.input] == [
        ("row", model_config_pb2.TYPE_FP32, [3])
    ]
    assert [(item.name, list(item.dims)) for item in config.output] == [("value", [1])]
    assert json.loads(config.parameters["mn.input"].string_value) == {
        "layout": "rows", "columns": ["a", "b", "c"], "target": "y",
    }  # fmt: skip
    assert not (repository / "m/labels.txt").exists()
    record = json.loads((repository / "m/1/export.json").read_text())
    assert record["labels"] is None
    assert record["outputs"] == [{"name": "value", "datatype": "FP32", "shape": [-1, 1]}]
    assert [item["batch"] for item in record["parity"]["comparisons"]] == [1, 2, 64] * 2


def test_a_plain_regressor_is_exported(table_runs: Path, repository: Path) -> None:
    report = export(options(table_runs, "vanilla", repository))
    artifact = loaded(table_runs, "vanilla")
    assert report.form == "vanilla"
    np.testing.assert_allclose(
        answered(report.path, artifact.samples.inputs, "value"), trained(artifact), atol=1e-2, rtol=0
    )
    with pytest.raises(FormError, match="does not adapt"):
        export(options(table_runs, "vanilla", repository, form="factored"))


def test_no_form_builds_weights_for_every_row(table_runs: Path, repository: Path) -> None:
    with pytest.raises(FormError, match="--form factored"):
        export(options(table_runs, "meta_neighborhoods", repository, form="explicit"))


def test_an_approximation_that_fails_parity_gives_way_to_the_exact_form(
    table_runs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank is far too low, as a calibration on unlucky rows might choose it."""
    chosen = choose_low_rank(monkeypatch)
    report = export(options(table_runs, "meta_neighborhoods", repository, approximation_tolerance=1e-3))
    assert chosen == [5]
    assert report.form == "factored"
    assert "did not pass the parity check" in report.adaptation["reason"]
    assert report.parity.passed


def choose_low_rank(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Choose a rank far too low, whatever the errors are; the list of choices."""
    taken: list[int] = []

    def smallest(error: object, largest: int, tolerance: float) -> int:
        taken.append(5)
        return 5

    monkeypatch.setattr("mnexport.forms.low_rank.rank.smallest_rank", smallest)
    return taken


def test_a_classifier_of_rows_is_exported(table_runs: Path, repository: Path) -> None:
    report = export(options(table_runs, "spiral", repository, form="factored"))
    artifact = loaded(table_runs, "spiral")
    with torch.inference_mode():
        expected = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.inputs))).logits.numpy()
    np.testing.assert_allclose(answered(report.path, artifact.samples.inputs, "logits"), expected, atol=1e-4, rtol=0)
    assert len((repository / "m/labels.txt").read_text().split()) == 2


def test_the_command_line_tells_the_error_of_values(
    table_runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(table_runs / "meta_neighborhoods" / "artifact"), str(repository / "m")]
    assert main([*words, "--parity", "test"]) == 0
    out = capsys.readouterr().out
    assert "max |Δ value|" in out.replace("\n", " ")
    assert "deviations of the target" in out

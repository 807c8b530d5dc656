"""Rows with categories and gaps from a file to a prediction: fit, export, serve, ask, predict, evaluate."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from mnexport.category_inputs import take_categories
from mnexport.errors import ParityError
from mnexport.options import ExportOptions
from mnexport.parity.report import ParityReport
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnexport.signature import ExportSignature
from mnserve.commands.cli import main as mnserve
from mntrain.artifact import TableArtifact, load_artifact
from mntrain.commands.cli import main as mntrain
from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

COLORS = ("blue", "grün", "red")
TARGETS = ("price", "rent")
HEADER = ("id", "size", "color", "age", *TARGETS)
TOLERANCE = 1e-4


def write_rows(path: Path, count: int, seed: int) -> list[list[str]]:
    """Write a table with two targets, a category, and gaps in the category and in the column ``age``."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        size, age, color = random.normal(50, 10), random.normal(5, 2), int(random.integers(3))
        price, rent = 3 * size + 40 * color - age + random.normal(), size / 10 - color + random.normal() / 10
        gaps = random.random(2) < 0.15
        cells = [f"{size:.4f}", "" if gaps[0] else COLORS[color], "" if gaps[1] else f"{age:.4f}"]
        rows.append([f"r{number}", *cells, f"{price:.4f}", f"{rent:.4f}"])
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="module")
def artifact(folder: Path) -> TableArtifact:
    write_rows(folder / "houses.csv", 240, seed=0)
    words = [
        "--name", "houses", "--data.path", str(folder / "houses.csv"), "--data.target_column", "[price, rent]",
        "--data.exclude_columns", "id", "--backbone.layers", "2", "--backbone.units", "12",
        "--meta_neighborhoods.entries", "24", "--training.epochs", "4", "--training.batch_size", "32",
    ]  # fmt: skip
    fit(load_experiment("table", words), FitOptions(runs=folder, quiet=True))
    loaded = load_artifact(folder / "houses" / "artifact")
    assert isinstance(loaded, TableArtifact)
    return loaded


@pytest.fixture(scope="module")
def parity(artifact: TableArtifact, folder: Path) -> ParityReport:
    target = Target(repository=folder / "repository", name="houses")
    return export(ExportOptions(artifact=artifact.path, target=target, form="factored", explain=3)).parity


@pytest.fixture(scope="module")
def server(parity: ParityReport, folder: Path, start_server: Callable[..., Any]) -> Any:
    return start_server(folder / "repository")


def trained(artifact: TableArtifact, rows: Sequence[Mapping[str, str]]) -> np.ndarray:
    """Values [N, 2] of the trained model for cells of a table."""
    described = artifact.config
    stored = [
        [
            *(float(row[name] or "nan") for name in described.numbers),
            *(
                vocabulary.index(row[name]) if row[name] in vocabulary else -1
                for name, vocabulary in described.categories.items()
            ),
        ]
        for row in rows
    ]
    with torch.inference_mode():
        inputs = artifact.preprocessing(torch.tensor(stored, dtype=torch.float32))
        values = artifact.model(inputs).values.numpy()
    scale = described.standardization
    return np.asarray(values * np.array(scale.target_std) + np.array(scale.target_mean))


def ask(client: Any, rows: Sequence[Mapping[str, str]]) -> np.ndarray:
    numbers = np.array([[float(row[name] or "nan") for name in ("size", "age")] for row in rows], np.float32)
    texts = np.array([[row["color"].encode()] for row in rows], dtype=object)
    tensors = [
        triton.InferInput("row", list(numbers.shape), "FP32"),
        triton.InferInput("categories", list(texts.shape), "BYTES"),
    ]
    for tensor, array in zip(tensors, (numbers, texts), strict=True):
        tensor.set_data_from_numpy(array)
    return np.asarray(client.infer("houses", tensors).as_numpy("value"))


def drawn(count: int, seed: int) -> list[dict[str, str]]:
    """Rows as clients have them: categories known, unknown and missing, numbers known and missing."""
    random = np.random.default_rng(seed)
    colors = ("", "violet", *COLORS)
    return [
        {
            "size": f"{random.normal(50, 10):.3f}",
            "age": "" if random.random() < 0.3 else f"{random.normal(5, 2):.3f}",
            "color": colors[random.integers(len(colors))],
        }
        for _ in range(count)
    ]


def allowed(artifact: TableArtifact) -> np.ndarray:
    return 2 * TOLERANCE * np.array(artifact.config.standardization.target_std)


def test_parity_begins_with_the_raw_row(artifact: TableArtifact, parity: ParityReport) -> None:
    assert parity.passed
    assert "with missing values" in parity.source
    assert {item.what for item in parity.comparisons} == {"static form", "onnxruntime", "onnxruntime, core.onnx"}
    assert artifact.config.targets == TARGETS
    assert artifact.config.categories == {"color": COLORS}
    assert artifact.config.columns == ("size", "age", "color")


@pytest.mark.parametrize("fault", ["order of the categories", "unknown categories"])
def test_parity_finds_faults_in_front_of_the_traced_graph(
    artifact: TableArtifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def take_wrongly(model: onnx.ModelProto, signature: ExportSignature, batch: str) -> None:
        (values,) = signature.vocabularies
        wrong = values[::-1] if fault == "order of the categories" else values
        take_categories(model, replace(signature, vocabularies=(wrong,)), batch)
        for node in model.graph.node:
            for attribute in node.attribute:
                if attribute.name == "default_float" and fault == "unknown categories":
                    attribute.f = 0.0

    monkeypatch.setattr("mnexport.graph.take_categories", take_wrongly)
    target = Target(repository=tmp_path, name="houses")
    with pytest.raises(ParityError, match=r"onnxruntime at batch 1: .* values beyond"):
        export(ExportOptions(artifact=artifact.path, target=target, vanilla=True))
    assert not (tmp_path / "houses").exists()


def test_callers_with_strings_and_gaps_get_their_own_rows(server: Any, artifact: TableArtifact) -> None:
    """Batched together: no string and no gap ends in another caller's row."""

    def caller(seed: int) -> float:
        random, worst = np.random.default_rng(seed), 0.0
        with triton.InferenceServerClient(server.address) as client:
            for turn in range(8):
                rows = drawn(int(random.integers(1, 9)), 100 * seed + turn)
                error = np.abs(ask(client, rows) - trained(artifact, rows)) / allowed(artifact)
                worst = max(worst, float(error.max()))
        return worst

    with ThreadPoolExecutor(6) as pool:
        assert max(pool.map(caller, range(6))) <= 1


def test_nan_is_a_gap_and_infinity_a_fault(server: Any, artifact: TableArtifact) -> None:
    rows = drawn(2, 1)
    with triton.InferenceServerClient(server.address) as client:
        with pytest.raises(InferenceServerException, match="1 values that are infinite"):
            ask(client, [rows[0], rows[1] | {"age": "inf"}])
        ask(client, [row | {"age": "nan", "size": "nan"} for row in rows])


def test_predict_answers_the_file_plus_columns(
    server: Any, artifact: TableArtifact, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_rows(folder / "new.csv", 150, seed=1)
    assert mnserve(["predict", "houses", str(folder / "new.csv"), "--url", server.address]) == 0
    served = capsys.readouterr().out
    found = list(csv.DictReader(served.splitlines()))
    assert list(found[0]) == [*HEADER, "predicted_price", "predicted_rent"]
    assert [list(row.values())[: len(HEADER)] for row in found] == rows
    values = np.array([[float(row[f"predicted_{name}"]) for name in TARGETS] for row in found])
    assert (np.abs(values - trained(artifact, found)) <= allowed(artifact)).all()
    output = folder / "predicted.csv"
    assert (
        mnserve(["predict", str(folder / "repository" / "houses"), str(folder / "new.csv"), "--output", str(output)])
        == 0
    )
    local = [list(row.values()) for row in csv.DictReader(output.read_text().splitlines())]
    for ours, theirs in zip(local, found, strict=True):
        assert ours[: len(HEADER)] == list(theirs.values())[: len(HEADER)]
        np.testing.assert_allclose(
            [float(cell) for cell in ours[-2:]],
            [float(cell) for cell in list(theirs.values())[-2:]],
            rtol=1e-4,
            atol=1e-3,
        )


def test_evaluate_agrees_with_the_served_predictions(
    server: Any, artifact: TableArtifact, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labelled rows that nobody has seen, with gaps and a category that training had not."""
    table = folder / "labelled.csv"
    write_rows(table, 60, seed=2)
    table.write_text(table.read_text(encoding="utf-8").replace("grün", "violet"), encoding="utf-8")
    assert mnserve(["predict", "houses", str(table), "--url", server.address]) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert mntrain(["evaluate", str(artifact.path), "--data.path", str(table), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["targets"]
    for name in TARGETS:
        errors = [float(row[f"predicted_{name}"]) - float(row[name]) for row in found]
        assert figures[name]["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-4)


def test_predict_explains_rows(
    server: Any, artifact: TableArtifact, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.csv").write_text("color,size,age\nviolet,50,\n", encoding="utf-8")
    words = ["predict", "houses", str(folder / "one.csv"), "--url", server.address, "--explain", "--json"]
    assert mnserve(words) == 0
    out, err = capsys.readouterr()
    (answer,) = json.loads(out)
    assert set(answer["values"]) == set(answer["explanation"]["unadapted"]) == set(TARGETS)
    assert len(answer["explanation"]["neighbors"]) == 3
    assert all(set(item["values"]) == set(TARGETS) for item in answer["explanation"]["neighbors"])
    assert "column 'color' has 1 category that the model does not know, such as 'violet'" in err

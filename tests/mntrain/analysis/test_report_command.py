"""`mntrain report`: sections of each kind of run, finer labels, and refused runs."""

import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

from mntrain.analysis.report_input import ReportOptions, load_report_input
from mntrain.commands.cli import main


def test_a_run_without_neighbors_gets_what_applies(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(runs / "vanilla"), "--images", "100", "--output", str(page), "--json"]) == 0
    out, err = capsys.readouterr()
    assert list(json.loads(out)) == ["run", "curves", "embedding", "retrieval", "learned"]
    assert err == ""
    assert "<svg" in page.read_text()


@pytest.mark.parametrize("classes", ["null", "!1"])
def test_finer_labels_stay_with_their_images(tmp_path: Path, capsys: pytest.CaptureFixture[str], classes: str) -> None:
    """The finer label of every image is written into its pixels; a class may be left out."""
    fine = np.arange(120) % 9
    rows = {
        "image": [Image.fromarray(np.full((8, 8), 25 * int(label), dtype=np.uint8)) for label in fine],
        "coarse": [int(label) // 3 for label in fine],
        "fine": [f"kind {label}" for label in fine],
    }
    datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image()).save_to_disk(str(tmp_path / "data"))
    small = ["--training.epochs", "1", "--backbone.width", "0.1", "--meta_neighborhoods.entries", "8"]
    data = ["--data.source", "datasets", "--data.path", str(tmp_path / "data"), "--data.label_column", "coarse"]
    data += ["--data.classes", classes]
    where = ["--runs", str(tmp_path), "--name", "a", "--json"]
    assert main(["fit", "digits", *where, *small, *data]) == 0
    capsys.readouterr()
    shutil.move(tmp_path / "data", tmp_path / "moved")
    words = ["report", str(tmp_path / "a"), "--images", "60", "--fine-labels", "fine", "--json"]
    assert main(words) == 1
    assert "--data-path" in capsys.readouterr().err
    assert main([*words, "--data-path", str(tmp_path / "moved")]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert set(numbers["retrieval"]["knn_accuracy"]) == {"labels", "fine"}
    options = ReportOptions(run=tmp_path / "a", data_path=str(tmp_path / "moved"), fine_labels="fine")
    report_input = load_report_input(options)
    assert report_input.fine is not None
    for part in ("train", "validation", "test"):
        written = getattr(report_input.data, part).inputs[:, 0, 0, 0] // 25
        assert set(written.tolist()) <= set(range(9) if classes == "null" else (0, 1, 2, 6, 7, 8))
        np.testing.assert_array_equal(getattr(report_input.fine, part), written)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere"], 1, "There is no run nowhere"),
        (["RUNS"], 1, "no run with a folder `artifact`"),
        (["RUNS/vanilla/artifact"], 1, "give the folder above it"),
        (["RUNS/vanilla", "--images", "0"], 2, "--images is 0"),
        (["RUNS/vanilla", "--fine-labels", "x"], 2, "has no columns"),
        (["RUNS/vanilla", "--data-path", "x"], 2, "reads no files"),
        (["RUNS/vanilla", "--output", "RUNS"], 1, "it is a folder"),
        (["RUNS/vanilla", "--output", "RUNS/vanilla/config.yaml/page.html"], 1, "cannot be written"),
        (["RUNS/vanilla", "--compare", "RUNS/vanilla/config.yaml"], 1, "no result of `mntrain compare`"),
    ],
)
def test_a_run_that_cannot_be_shown_is_refused_in_one_sentence(
    words: list[str], code: int, sentence: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *(word.replace("RUNS", str(runs)) for word in words), "--json"]) == code
    out, err = capsys.readouterr()
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_a_damaged_history_or_artifact_is_one_sentence(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "vanilla", run)
    (run / "metrics.csv").write_text("epoch,train_loss\n1,none\n")
    assert main(["report", str(run), "--json"]) == 1
    assert "metrics.csv cannot be read" in capsys.readouterr().err
    config = json.loads((run / "artifact" / "config.json").read_text())
    (run / "artifact" / "config.json").write_text(json.dumps(config | {"schema": 99}))
    assert main(["report", str(run), "--json"]) == 1
    assert "schema 99" in capsys.readouterr().err


def test_the_page_of_a_classifier_of_rows_has_its_sections(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data.rows", "120", "--training.epochs", "2", "--meta_neighborhoods.entries", "12"]
    assert main(["fit", "spiral", *words, "--runs", str(tmp_path), "--name", "a", "--json"]) == 0
    test = json.loads(capsys.readouterr().out)["test"]
    assert main(["report", str(tmp_path / "a"), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    shown = ["run", "curves", "adaptation", "acting", "embedding", "retrieval", "usage", "ablations", "learned"]
    assert list(numbers) == shown
    assert numbers["adaptation"]["after"] == pytest.approx(test["accuracy"])
    assert numbers["adaptation"]["before"] == pytest.approx(test["unadapted_accuracy"])
    page = (tmp_path / "a" / "report.html").read_text()
    assert "test rows" in page
    assert "<img" not in page


@pytest.mark.parametrize("family", ["meta_neighborhoods", "vanilla"])
def test_the_page_of_a_regressor_has_its_errors(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    table = np.column_stack([x, 50 + 9 * np.sin(x[:, 0])])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,price", comments="")
    words = ["--data.path", str(tmp_path / "rows.csv"), "--family", family, "--backbone.units", "8", "--name", "a"]
    words += ["--data.target_column", "price"]
    words += ["--training.epochs", "3", "--meta_neighborhoods.entries", "12", "--runs", str(tmp_path), "--json"]
    assert main(["fit", "uci", *words]) == 0
    test = json.loads(capsys.readouterr().out)["test"]
    assert main(["report", str(tmp_path / "a"), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    adaptive = family != "vanilla"
    assert list(numbers) == ["run", "curves", "estimates", *(["acting", "usage", "learned"] if adaptive else [])]
    assert numbers["estimates"]["mse"] == pytest.approx(test["mse"], rel=1e-5)
    assert numbers["estimates"].get("unadapted_mse") == (
        pytest.approx(test["unadapted_mse"], rel=1e-5) if adaptive else None
    )
    assert "price, standardised" in (tmp_path / "a" / "report.html").read_text()


SWEEP = {"field": "meta_neighborhoods.entries", "values": ["10", "50"], "variants": ["a", "b"]}


@pytest.mark.parametrize(
    ("sweep", "score", "metric"),
    [
        (SWEEP | {"values": [], "variants": []}, 0.5, "accuracy"),
        (SWEEP | {"values": ["10", "20", "50"]}, 0.5, "accuracy"),
        (SWEEP, float("nan"), "accuracy"),
        (SWEEP, 1e300, "accuracy"),
        (SWEEP, 0.5, "$\\bad{$"),
    ],
)
def test_a_comparison_that_cannot_be_drawn_is_one_sentence(
    sweep: dict[str, Any], score: float, metric: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compare.json"
    variants = [{"variant": name, "runs": [{"score": score}]} for name in "ab"]
    file.write_text(json.dumps({"recipe": "r", "metric": metric, "variants": variants, "sweeps": [sweep]}))
    assert main(["report", str(runs / "vanilla"), "--images", "20", "--compare", str(file), "--json"]) == 1
    assert "is no result of `mntrain compare`" in capsys.readouterr().err
    file.write_text("[" * 100_000)
    assert main(["report", str(runs / "vanilla"), "--images", "20", "--compare", str(file), "--json"]) == 1


def test_odd_names_and_figures_of_a_run_do_no_harm(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "vanilla", tmp_path / "run"))
    file = run / "metrics.csv"
    file.write_text(file.read_text().replace("_loss", "_$\\frac$", 2))
    values = json.loads((run / "artifact" / "config.json").read_text())
    values["metrics"]["best_epoch"] = 10**400
    values["metrics"]["test"]["unadapted_accuracy"] = "x"
    (run / "artifact" / "config.json").write_text(json.dumps(values))
    assert main(["report", str(run), "--images", "20", "--json"]) == 0
    file.write_text("epoch,train_loss,validation_loss\n1,1e308,1\n")
    assert main(["report", str(run), "--images", "20", "--json"]) == 1

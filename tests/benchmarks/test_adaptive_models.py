"""benchmarks/adaptive_models.py and adaptive_scaling.py from images to plot, on ConvNet-4 and a few small images."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adaptive_models
import adaptive_scaling
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from adapting.acting import Budget, train_acting
from adapting.calibrated import Training, calibrate, trained
from adapting.sizes import CALIBRATED, Size
from adaptive_scaling import Point
from common.price import price_of
from matplotlib.figure import Figure
from PIL import Image

from mnexport.errors import MnExportError
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.errors import DataError
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.training.artifact_data import load_split

Run = Callable[..., Any]
LABELS, IMAGES, TRAINED = 3, 30, 27  # a tenth is held out for validation
ONE = ("--entries", "12", "--classes")
FEW, LARGE, GROUPED = Size("convnet4", 3, 12), Size("convnet4", 3, 40), Size("convnet4", 5, 12)
MANY = Size("convnet4", 4, 40)  # classes enough for the other set


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of parquet files: images of 16×16 pixels that are reddish, greenish or blueish."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for split, count in (("train", IMAGES), ("test", 9)):
        labels = [place % LABELS for place in range(count)]
        rows = []
        for label in labels:
            pixels = random.integers(0, 120, (16, 16, 3), dtype=np.uint8)
            pixels[..., label] += 100
            stream = io.BytesIO()
            Image.fromarray(pixels).save(stream, format="PNG")
            rows.append({"bytes": stream.getvalue(), "path": None})
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        pq.write_table(pa.table({"img": pa.array(rows, type=kind), "label": labels}), folder / f"{split}.parquet")
    return folder


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_models, "SIZES", (FEW, MANY))
    monkeypatch.setattr("adapting.acting._FEW_CLASSES", LABELS)
    monkeypatch.setattr(adaptive_scaling, "CROSSING", (LABELS, FEW.entries))
    monkeypatch.setattr("mnserve.bench.timing._WARM_UP_SECONDS", 0.01)


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a trained backbone and nothing else."""
    folder = tmp_path_factory.mktemp("finished")
    trained(FEW, Training(folder / "runs", str(data), images=TRAINED, epochs=1))
    return folder


@pytest.fixture
def output(finished: Path, tmp_path: Path) -> Path:
    """Copy the folder, to be changed by a test."""
    return Path(shutil.copytree(finished, tmp_path / "output"))


def opened(folder: Path) -> tuple[ImageArtifact, MetaNeighborhoods]:
    artifact = load_artifact(folder)
    assert isinstance(artifact, ImageArtifact)
    assert isinstance(artifact.model, MetaNeighborhoods)
    return artifact, artifact.model


def test_models_are_trained_with_a_data_start_beside_filled_twins(run_script: Run, data: Path, tmp_path: Path) -> None:
    words = (tmp_path, "--data.path", data, "--many.path", data, "--epochs", 2, "--only", FEW.name, MANY.name)
    done = run_script("adaptive_models", *words, "--share", 0.7)
    assert done.code == 0, done.stderr
    places = [tmp_path / (size.name + ending) for size in (FEW, MANY) for ending in ("", CALIBRATED)]
    assert done.stdout == "".join(f"wrote {place}\n" for place in places)
    for size, augmented in ((FEW, 0.7 * 12), (MANY, 0.7 * 40)):
        artifact, model = opened(tmp_path / size.name)
        settings = artifact.config.experiment
        assert (settings.model.init, settings.model.warm_up, settings.training.epochs) == ("data", 1, 2)
        assert sum(artifact.config.split["counts"][part] for part in ("train", "validation")) == round(augmented)
        start = artifact.config.metrics["start"]
        assert (start["warm_up"], start["entries"]) == (1, size.entries)
        assert artifact.config.metrics["adaptation"]["weight_change"] > 0
        filled, twin = opened(tmp_path / (size.name + CALIBRATED))
        assert filled.config.metrics["weight_change"] > 0
        assert twin.dictionary.keys.shape == model.dictionary.keys.shape
        for name, value in model.backbone.state_dict().items():
            torch.testing.assert_close(twin.backbone.state_dict()[name], value)
    assert "written" not in run_script("adaptive_models", tmp_path, "--only", FEW.name, MANY.name).stdout
    shutil.rmtree(places[1])
    assert run_script("adaptive_models", *words).stdout == f"wrote {places[1]}\n"  # the network is not trained again


def test_keys_of_a_filled_dictionary_are_features(data: Path, output: Path) -> None:
    training = Training(output / "runs", str(data), images=TRAINED, epochs=1)
    for size in (FEW, LARGE, GROUPED):
        calibrate(size, trained(size, training), output / size.name)
        artifact, model = opened(output / size.name)
        images = load_split(artifact.config, "train", None)
        pixels = torch.from_numpy(np.concatenate([images.inputs, images.inputs[..., ::-1]]))
        labels = np.concatenate([images.targets, images.targets])[: size.entries]
        with torch.inference_mode():
            features = model.backbone(artifact.preprocessing(pixels))[: size.entries]
        torch.testing.assert_close(model.dictionary.keys.detach(), features, atol=1e-4, rtol=1e-4)
        chosen = model.dictionary.value_logits.argmax(dim=-1).numpy()
        if size is GROUPED:
            assert artifact.config.labels == tuple(f"group {index}" for index in range(5))
            assert len(set(chosen)) > LABELS
        else:
            assert chosen.tolist() == labels.tolist()
            assert artifact.samples.labels.tolist() == load_split(artifact.config, "test").targets.tolist()
        with torch.inference_mode():
            found = model(artifact.preprocessing(torch.from_numpy(artifact.samples.images)))
        assert (found.logits - found.unadapted_logits).abs().max() > 1e-3
        if size is GROUPED:  # samples have the model's own answers
            assert artifact.samples.labels.tolist() == found.logits.argmax(dim=-1).tolist()
    with pytest.raises(DataError, match="needs 1000 keys, but"):
        calibrate(Size("convnet4", 3, 1000), trained(FEW, training), output / "none")


def test_runs_that_were_interrupted_go_on(data: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = output / "runs" / FEW.network, []
    shutil.move(run / "artifact", output / "kept")

    def resumed(config: Any, options: Any) -> None:
        asked.append((config.name, config.family, config.training.epochs, options.resume))
        shutil.copytree(output / "kept", options.runs / config.name / "artifact")

    monkeypatch.setattr("adapting.calibrated.fit", resumed)
    monkeypatch.setattr("adapting.acting.fit", resumed)
    training = Training(output / "runs", str(data), images=TRAINED, epochs=7)
    assert trained(FEW, training).config.labels == ("0", "1", "2")
    (output / "runs" / FEW.name).mkdir()
    train_acting(FEW, Budget(folder=output, data=(str(data), None), share=1.0, epochs=4))
    assert asked == [(FEW.network, "vanilla", 7, True), (FEW.name, "meta_neighborhoods", 4, True)]


def test_the_perceptron_is_fitted_once(run_script: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fitted(config: Any, options: Any) -> None:
        asked.append((config.data.path, config.model.entries, config.model.init))
        (options.runs / config.name / "artifact").mkdir(parents=True)

    monkeypatch.setattr("adapting.acting.fit", fitted)
    words = (tmp_path, "--regression", "table.csv", "--only", "mlp-1000")
    assert run_script("adaptive_models", *words).stdout == f"wrote {tmp_path / 'mlp-1000'}\n"
    assert run_script("adaptive_models", *words).stdout == ""
    assert asked == [("table.csv", 1000, "data")]


def test_a_model_that_cannot_be_made_is_one_sentence(run_script: Run, data: Path, tmp_path: Path) -> None:
    missing = "there are no data for"
    for words, code, message in (
        (("--only", FEW.name, "mlp-1000"), 2, f"{missing} {FEW.name}, mlp-1000; give --data.path, --many.path or"),
        (("--data.path", data, "--only", MANY.name), 2, f"{missing} {MANY.name}; give"),
        (("--only", "bogus"), 2, "invalid choice: 'bogus'"),
        (("--epochs", "1"), 2, "argument --epochs: '1' leaves the network no epoch of its own"),
        (("--data.path", tmp_path / "gone", "--only", FEW.name), 1, "gone holds no train.parquet"),
        (("--data.path", data, "--only", FEW.name, "--share", 4), 1, "train.parquet has 30 rows, but 48 are needed"),
    ):
        done = run_script("adaptive_models", tmp_path, *words)
        assert (done.code, done.stdout) == (code, "")
        assert message in done.stderr
        assert "adaptive_models" in done.stderr
    for classes, entries in ((1, 5), (6, 5)):
        with pytest.raises(ValueError, match="do not go together"):
            Size("convnet4", classes, entries)


def test_what_has_no_data_is_left_out(
    run_script: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(adaptive_models, "_make", lambda size, budget: made.append(size.name))
    done = run_script("adaptive_models", tmp_path, "--data.path", data)
    assert made == [FEW.name]
    for name in (MANY.name, "mlp-1000"):
        assert f"{name}: left out, there are no data for it" in done.stderr


def test_adaptive_scaling_exports_measures_and_plots(
    run_script: Run, data: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def watched(repository: Path, model: str, plain: str, *rest: Any, **named: Any) -> dict[str, Any]:
        compared.append((model, plain))
        return price_of(repository, model, plain, *rest, **named)

    monkeypatch.setattr(adaptive_scaling, "price_of", watched)
    monkeypatch.setattr(adaptive_scaling, "FORMS", ("low_rank",))
    words = ("--data.path", data, "--backbone", "convnet4", *ONE, "--seconds", 0.01, "--rounds", 2, "--batches", 1, 2)
    files = ("--plot", output / "scaling.svg", "--json", output / "scaling.json")
    done = run_script("adaptive_scaling", output, *words, *files)
    assert done.code == 0, done.stderr
    assert compared == [(f"{FEW.name}-low_rank", "convnet4-3-vanilla")]
    (point,) = json.loads((output / "scaling.json").read_text())["points"]
    assert (point["form"], point["classes"], point["entries"], point["missing"]) == ("low_rank", 3, 12, "")
    assert 1 <= point["rank"] <= FEW.entries
    assert list(point["ratios"]) == ["1", "2"]
    (row,) = [line for line in done.stdout.splitlines() if f"low_rank, rank {point['rank']}" in line]
    for median, low, high in point["ratios"].values():
        assert low <= median <= high
        assert f"{median:.2f} ({low:.2f}–{high:.2f})" in row
    assert (output / "scaling.svg").read_text().count("<svg") == 1


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of exports instead of writing graphs; the explicit form cannot be exported."""
    names: list[str] = []

    def export(options: Any) -> None:
        names.append(options.target.name)
        if options.form == "explicit":
            raise MnExportError("no such form")
        approximated = {"tolerance": options.approximation_tolerance, "rank": 7}
        record = {"adaptation": approximated if options.form == "low_rank" else {}}
        (options.target.folder / "1").mkdir(parents=True, exist_ok=True)
        (options.target.folder / "1" / "export.json").write_text(json.dumps(record))

    monkeypatch.setattr(adaptive_scaling, "export", export)
    return names


def test_exports_are_kept_unless_the_tolerance_changes(
    run_script: Run, data: Path, output: Path, exported: list[str]
) -> None:
    words = (output, "--data.path", data, "--backbone", "convnet4", *ONE)
    names = [*(f"{FEW.name}-{form}" for form in ("explicit", "factored", "low_rank")), "convnet4-3-vanilla"]
    for tolerance, wanted in (("1e-3", names), ("1e-3", names[:1]), ("1e-2", [names[0], names[2]])):
        exported.clear()
        done = run_script("adaptive_scaling", *words, "--tolerance", tolerance, "--export-only")
        assert (done.code, done.stdout) == (0, "")
        assert exported == wanted
        assert f"{FEW.name}-explicit: no such form" in done.stderr


def test_each_ratio_stands_in_the_row_of_its_form(
    run_script: Run, data: Path, output: Path, exported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    medians = {"factored": 3.0, "low_rank": 2.0}

    def price(repository: Path, model: str, plain: str, batches: list[int], **_: float) -> dict[str, Any]:
        assert plain == "convnet4-3-vanilla"
        median = medians[model.removeprefix(f"{FEW.name}-")]
        spreads = [{"median": median * batch, "q1": median * batch - 0.5, "q3": 99.0} for batch in batches]
        return {"results": [{"ratio": {"spread": spread}} for spread in spreads]}

    monkeypatch.setattr(adaptive_scaling, "price_of", price)
    words = ("--data.path", data, "--backbone", "convnet4", *ONE, "--batches", 4, 1)
    done = run_script("adaptive_scaling", output, *words, "--json", output / "scaling.json")
    assert done.code == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines()]
    assert [row for row in rows if row] == [
        ["3", "12", "explicit", "–", "–"],
        ["3", "12", "factored", "12.00 (11.50–99.00)", "3.00 (2.50–99.00)"],
        ["3", "12", "low_rank, rank 7", "8.00 (7.50–99.00)", "2.00 (1.50–99.00)"],
    ]
    assert "– C 3, S 12, explicit: no such form" in done.stdout
    points = json.loads((output / "scaling.json").read_text())["points"]
    assert points[0]["missing"] == "no such form"
    assert points[2]["ratios"] == {"4": [8.0, 7.5, 99.0], "1": [2.0, 1.5, 99.0]}


def test_the_plot_shows_each_form_over_entries_and_classes(tmp_path: Path) -> None:
    ratios = {"factored": {12: 3.0, 24: 5.0}, "low_rank": {12: 2.0}}
    points = [
        Point(form=form, classes=LABELS, entries=entries, ratios={1: (ratio, ratio - 0.5, ratio + 0.5)})
        for form, found in ratios.items()
        for entries, ratio in found.items()
    ]
    points.append(Point(form="low_rank", classes=LABELS, entries=24, missing="no", ratios={}))
    axes = Figure().subplots()
    adaptive_scaling._draw_sweep(axes, [(one.entries, one) for one in points], 1)
    drawn = {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in axes.get_lines()
        if line.get_label() in ratios
    }
    assert drawn == {"factored": ([12, 24], [3.0, 5.0]), "low_rank": ([12], [2.0])}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--entries", "--classes"], 2, "there is nothing to measure"),
        (["--entries", "2"], 2, "3 classes and 2 entries do not go together"),
        (["--entries", "x"], 2, "argument --entries: 'x' is not a whole number above 0"),
        (["--batches", "0"], 2, "argument --batches: '0' is not a whole number above 0"),
        (["--plot", "x.gif"], 2, "'x.gif' does not end in one of .png, .svg, .pdf"),
        (["--plot", "/nowhere/x.png"], 2, "the folder /nowhere does not exist"),
        ([*ONE, "--backbone", "bogus"], 2, "adaptive_scaling: backbone.name is 'bogus', which is not a backbone"),
        ([*ONE, "--data.path", "/nowhere", "--backbone", "convnet4"], 1, "adaptive_scaling: "),
    ],
)
def test_a_model_that_cannot_be_measured_is_one_sentence(
    run_script: Run, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    done = run_script("adaptive_scaling", tmp_path, "--data.path", tmp_path, *words)
    assert (done.code, done.stdout) == (code, "")
    assert message in done.stderr

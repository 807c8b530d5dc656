"""`mntrain evaluate` on images that the model has never seen, and on a split of its run."""

import csv
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import classification_report, confusion_matrix
from sklearn.neighbors import KNeighborsClassifier

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.commands.cli import main
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData
from mntrain.evaluation.reading import reading_config
from mntrain.training.artifact_data import load_data

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def folder(runs: Path) -> Path:
    return runs / "meta_neighborhoods" / "artifact"


@pytest.fixture(scope="module")
def artifact(folder: Path) -> ImageArtifact:
    loaded = load_artifact(folder)
    assert isinstance(loaded, ImageArtifact)
    return loaded


@pytest.fixture
def evaluate(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command, and returns its JSON."""

    def run(*words: str) -> dict[str, Any]:
        assert main(["evaluate", str(folder), "--json", *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    return run


def predict(artifact: ImageArtifact, images: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        answer: np.ndarray = artifact.model(artifact.preprocessing(torch.from_numpy(images))).logits.argmax(-1).numpy()
    return answer


def write(path: Path, images: np.ndarray, classes: list[str]) -> Path:
    """Writes a folder for each class; images are turned upside down, so that none is one of the run's."""
    for number, (image, name) in enumerate(zip(images, classes, strict=True)):
        file = path / name / f"{number:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(file)
    return path


def test_new_images_of_some_classes_are_matched_by_name(artifact: ImageArtifact, evaluate: Run, tmp_path: Path) -> None:
    """The folder's classes are 2, 5 and 9: numbers 0, 1 and 2 there, others in the model."""
    chosen = np.flatnonzero(np.isin(artifact.samples.labels, (9, 5, 2)))
    images = np.ascontiguousarray(artifact.samples.images[chosen][:, :, ::-1])
    labels = artifact.samples.labels[chosen]
    found = evaluate("--data.path", str(write(tmp_path / "new", images, [str(label) for label in labels])))
    predictions = predict(artifact, images)
    expected = classification_report(labels, predictions, labels=range(10), output_dict=True, zero_division=0.0)
    assert found["examples"] == len(labels)
    assert found["accuracy"] == pytest.approx(np.mean(labels == predictions))
    for name in ("2", "5", "9"):
        one = found["classes"][name]
        assert (one["precision"], one["recall"], one["f1"], one["support"]) == pytest.approx(
            tuple(expected[name].values())
        )
    assert found["classes"]["0"]["recall"] is None
    assert found["macro"]["classes"] == 3
    assert found["macro"]["f1"] == pytest.approx(np.mean([expected[name]["f1-score"] for name in ("2", "5", "9")]))
    matrix = confusion_matrix(labels, predictions, labels=range(10))
    assert found["confusion"] == {"classes": [str(number) for number in range(10)], "counts": matrix.tolist()}
    assert found["new_data"]["left_out"] == {}
    assert found["new_data"]["equal_to"] == {"samples": 0, "samples_of": 256, "training": None}


def test_one_class_alone_is_evaluated_and_the_runs_own_images_are_recognised(
    artifact: ImageArtifact, evaluate: Run, tmp_path: Path
) -> None:
    images = artifact.samples.images[artifact.samples.labels == 4]
    found = evaluate("--data.path", str(write(tmp_path / "new", images, ["4"] * len(images))))
    assert found["classes"]["4"]["recall"] == np.mean(predict(artifact, images) == 4)
    assert found["accuracy"] == pytest.approx(found["classes"]["4"]["recall"])
    assert found["new_data"]["equal_to"]["samples"] == len(images)


def test_unknown_classes_are_refused_by_name_or_left_out(
    artifact: ImageArtifact, evaluate: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write(tmp_path / "new", artifact.samples.images[:6], ["1", "wolf", "wolf", "3", "owl", "3"])
    assert main(["evaluate", str(folder), "--data.path", str(new)]) == 1
    err = capsys.readouterr().err
    assert all(part in err for part in ("'owl' (1 images)", "'wolf' (2 images)", "--unknown-classes ignore"))
    found = evaluate("--data.path", str(new), "--unknown-classes", "ignore")
    assert (found["examples"], found["new_data"]["left_out"]) == (3, {"owl": 1, "wolf": 2})
    strange = write(tmp_path / "strange", artifact.samples.images[:2], ["owl", "wolf"])
    assert main(["evaluate", str(folder), "--data.path", str(strange), "--unknown-classes", "ignore"]) == 1
    assert "holds no class that the model knows" in capsys.readouterr().err


def test_images_of_another_size_and_color_are_brought_to_the_models(
    artifact: ImageArtifact, evaluate: Run, tmp_path: Path
) -> None:
    large = [Image.fromarray(image[0]).resize((32, 32)).convert("RGB") for image in artifact.samples.images[:8]]
    for number, image in enumerate(large):
        name = str(artifact.samples.labels[number])
        (tmp_path / name).mkdir(exist_ok=True)
        image.save(tmp_path / name / f"{number}.png")
    assert evaluate("--data.path", str(tmp_path))["examples"] == 8


def test_all_splits_of_new_data_are_joined_or_one_is_chosen(
    artifact: ImageArtifact, evaluate: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split, part in (("train", slice(0, 12)), ("test", slice(12, 17))):
        write(tmp_path / split, artifact.samples.images[part], [str(n) for n in artifact.samples.labels[part]])
    assert evaluate("--data.path", str(tmp_path))["examples"] == 17
    assert evaluate("--data.path", str(tmp_path), "--split", "test")["examples"] == 5
    assert main(["evaluate", str(folder), "--data.path", str(tmp_path), "--split", "validation"]) == 2
    assert "has the splits train, test" in capsys.readouterr().err


def test_new_data_needs_no_train_split_and_ignored_files_are_told(
    artifact: ImageArtifact, evaluate: Run, tmp_path: Path
) -> None:
    """Two split folders without train, of which each has classes of its own, and a file that is no picture."""
    for split, digit in (("val", 1), ("test", 6)):
        images = artifact.samples.images[artifact.samples.labels == digit][:3]
        write(tmp_path / "new" / split, images, [str(digit)] * 3)
    (tmp_path / "new" / "test" / "6" / "notes.txt").write_text("none")
    found = evaluate("--data.path", str(tmp_path / "new"), "--output", str(tmp_path / "out"))
    assert {name: one["support"] for name, one in found["classes"].items() if one["support"]} == {"1": 3, "6": 3}
    assert found["new_data"]["notes"][0] == "splits: validation (3), test (3)"
    assert any("ignored: 1" in note and "notes.txt" in note for note in found["new_data"]["notes"])
    with (tmp_path / "out" / "predictions.csv").open() as stream:
        assert [row["example"] for row in csv.DictReader(stream)][-1] == "test/6/002.png"


def test_a_manifest_with_a_column_of_another_name_is_read(
    artifact: ImageArtifact, evaluate: Run, tmp_path: Path
) -> None:
    write(tmp_path, artifact.samples.images[:4], ["pictures"] * 4)
    labels = artifact.samples.labels[:4]
    lines = ["file_name,digit", *(f"pictures/{number:03d}.png,{label}" for number, label in enumerate(labels))]
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    found = evaluate("--data.path", str(tmp_path / "list.csv"), "--data.label_column", "digit")
    assert found["accuracy"] == np.mean(predict(artifact, artifact.samples.images[:4]) == labels)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data.image_size", "8"], "--data.path is not given"),
        (["--unknown-classes", "ignore"], "add --data.path NEW"),
        (["--data.path", "x", "--data-path", "y"], "add --baselines"),
        (["--data.path", "x", "--epochs", "3"], "--epochs cannot be set here, where the fields of data can"),
        (["--data.path", "x", "--data.source", "table"], "which holds rows, but the model takes images"),
        (["--data.path", "x", "--data.folds", "3"], "data.folds has no use for new data"),
        (["--batch-size", "0"], "--batch-size is 0"),
    ],
)
def test_wrong_usage_is_refused_in_one_sentence(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(folder), *words]) == 2
    assert message in capsys.readouterr().err


def test_the_split_of_the_run_has_all_figures_beside_those_of_training(
    artifact: ImageArtifact, evaluate: Run, tmp_path: Path
) -> None:
    found = evaluate("--output", str(tmp_path / "out"), "--baselines")
    stored = artifact.config.metrics.get("test", artifact.config.metrics)
    assert found["split"] == "test"
    assert found["examples"] == 359
    assert found["accuracy"] == pytest.approx(stored["accuracy"])
    data = load_data(artifact.config)
    assert isinstance(data, ImageData)
    _check_knn(artifact, data, found["baselines"]["knn"])
    assert json.loads((tmp_path / "out" / "metrics.json").read_text()) == found
    _check_files(tmp_path / "out", data, predict(artifact, data.test.images), found)


def _check_knn(artifact: ImageArtifact, data: ImageData, found: dict[str, Any]) -> None:
    """kNN of unit features by scikit-learn, k chosen by validation."""

    def features(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            queries = artifact.model.queries(artifact.preprocessing(torch.from_numpy(images)))  # type: ignore[operator]
        return np.asarray(queries / queries.norm(dim=1, keepdim=True))

    train, validation, test = (features(part.images) for part in (data.train, data.validation, data.test))
    scores = {
        count: KNeighborsClassifier(count).fit(train, data.train.labels).score(validation, data.validation.labels)
        for count in (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
    }
    best = max(scores, key=lambda count: (scores[count], -count))
    assert found["neighbors"] == best
    model = KNeighborsClassifier(best).fit(train, data.train.labels)
    assert found["accuracy"] == pytest.approx(model.score(test, data.test.labels))


def _check_files(out: Path, data: ImageData, predictions: np.ndarray, found: dict[str, Any]) -> None:
    assert {file.name for file in out.iterdir()} == {
        ".lock",
        "metrics.json",
        "per_class.csv",
        "confusion.csv",
        "predictions.csv",
        "confusion.png",
        "confusion.svg",
    }
    with Image.open(out / "confusion.png") as drawn:
        drawn.verify()
        assert min(drawn.size) > 400
    with (out / "predictions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["prediction"] for row in rows] == [str(number) for number in predictions]
    assert [row["label"] for row in rows] == [str(number) for number in data.test.labels]
    assert [row["example"] for row in rows[:2]] == [data.place("test", 0), data.place("test", 1)]
    assert all(0 < float(row["probability"]) <= 1 for row in rows)
    with (out / "per_class.csv").open() as stream:
        classes = list(csv.DictReader(stream))
    assert [float(row["f1"]) for row in classes] == [one["f1"] for one in found["classes"].values()]
    with (out / "confusion.csv").open() as stream:
        lines = list(csv.reader(stream))
    assert [[int(cell) for cell in line[1:]] for line in lines[1:]] == found["confusion"]["counts"]


def test_the_terminal_shows_classes_matrix_and_what_was_not_new(
    artifact: ImageArtifact, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = artifact.samples.select(np.flatnonzero(artifact.samples.labels < 2)[:9])
    new = write(tmp_path / "new", chosen.images, [str(label) for label in chosen.labels])
    assert main(["evaluate", str(folder), "--data.path", str(new), "--baselines"]) == 0
    out = capsys.readouterr().out
    assert "warning: 9 of 9 images are equal to some of the 256 held-out images" in out
    assert "none of the images is equal to one that the model was trained with" in out
    assert "no images of 8 of the model's 10 classes" in out
    assert "precision" in out
    assert "adaptation corrects 0 answers and breaks 0" in out
    assert "true \\ predicted" in out
    assert "kNN" in out


def test_the_source_follows_the_run_and_the_path(artifact: ImageArtifact, tmp_path: Path) -> None:
    def source(trained: str, path: Path) -> str:
        experiment = dataclasses.replace(artifact.config.experiment, data=DataConfig(source=trained, path="x"))
        return reading_config(dataclasses.replace(artifact.config, experiment=experiment), {"path": str(path)}).source

    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "t10k-images-idx3-ubyte.gz").touch()
    assert source("fashion-mnist", tmp_path / "idx") == "fashion-mnist", "whose classes have names"
    assert source("fashion-mnist", tmp_path) == source("datasets", tmp_path) == "images"
    assert source("datasets", tmp_path / "owner" / "name") == "datasets"
    assert reading_config(artifact.config, {"path": str(tmp_path)}).image_size == 8


@pytest.mark.parametrize("output", ["new", "new/figures", "link/figures"])
def test_figures_are_not_written_among_the_data(
    output: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "link").symlink_to("new")
    words = ["evaluate", str(folder), "--data.path", str(tmp_path / "new"), "--output", str(tmp_path / output)]
    assert main(words) == 2
    assert "which lies in the data at" in capsys.readouterr().err
    assert not any((tmp_path / "new").iterdir())

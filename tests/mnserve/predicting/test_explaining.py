"""``mnserve predict --explain`` with training images: whose they are, where they come from, and what is refused."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mnserve.commands.cli import main
from mnserve.commands.predict import run
from mnserve.errors import CorruptModelError, OutputError, SettingsError, TrainingImagesError
from mnserve.predicting import session
from mnserve.predicting.models import RemoteModel
from mnserve.predicting.settings import PredictSettings

ExplainedModel = Callable[..., Path]


def predict(model: Path | str, *files: Path | str, **options: Any) -> int:
    return run(PredictSettings(model=str(model), files=[str(file) for file in files], explain=True, **options))


def told(text: str) -> list[list[dict[str, Any]]]:
    return [answer["explanation"]["neighbors"] for answer in json.loads(text)]


def test_every_neighbor_has_its_own_images(
    explained_model: ExplainedModel, training: dict[str, Any], colours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = explained_model(arrays=training)
    assert predict(model, colours, json=True) == 0
    images = [
        [{"position": 3, "label": "red"}, {"position": 6000, "label": "red"}],
        [{"position": 40, "label": "green"}, {"position": 70000, "label": "green"}],
        [{"position": 500, "label": "blue"}, {"position": 6000, "label": "red"}],
    ]
    for index, neighbors in enumerate(told(capsys.readouterr().out)):
        assert neighbors[0]["entry"] == index
        assert [one["label"] for one in neighbors] == [["red", "blue", "green"][one["entry"]] for one in neighbors]
        assert [one["training_images"] for one in neighbors] == [images[one["entry"]] for one in neighbors]
    assert predict(model, colours / "1-green.png") == 0
    out, err = capsys.readouterr()
    assert "neighbors blue (#1, 86.5%; training images green at 40, green at 70000), " in out
    assert err == ""


def test_the_table_has_a_line_for_each_neighbor(
    explained_model: ExplainedModel,
    training: dict[str, Any],
    colours: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    assert predict(explained_model(arrays=training), colours / "2-blue.png") == 0
    out = capsys.readouterr().out
    assert "training images, nearest first" in out
    (first,) = (line for line in out.splitlines() if "#2" in line)
    assert "green (#2, 86.5%; training images blue at 500, red at 6000)" in first
    assert "#0" not in first


def test_only_a_file_that_was_published_with_the_model_is_read(
    explained_model: ExplainedModel, training: dict[str, Any], colours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without export.json, or where it does not name the file, the name is chance."""
    model = explained_model()
    (model / "1" / "neighbors.npz").write_bytes(b"something of somebody else")
    assert predict(model, colours / "0-red.png", json=True) == 0
    assert all("training_images" not in one for one in told(capsys.readouterr().out)[0])
    (model / "1" / "export.json").write_text("{}")
    assert predict(model, colours / "0-red.png") == 0
    assert "training images" not in capsys.readouterr().out


def test_a_published_file_that_was_changed_is_refused(
    explained_model: ExplainedModel, training: dict[str, Any], colours: Path
) -> None:
    model = explained_model(arrays=training)
    np.savez_compressed(model / "1" / "neighbors.npz", **training | {"positions": training["positions"] + 1})
    with pytest.raises(CorruptModelError, match=r"neighbors\.npz has SHA-256 .* changed or damaged"):
        predict(model, colours)
    (model / "1" / "neighbors.npz").unlink()
    with pytest.raises(CorruptModelError, match=r"neighbors\.npz is missing"):
        predict(model, colours)


def test_without_explain_the_file_is_not_opened(
    explained_model: ExplainedModel, training: dict[str, Any], colours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_file: Path) -> None:
        pytest.fail("opened")

    monkeypatch.setattr("mnserve.predicting.session.read_training_images", opened)
    settings = PredictSettings(model=str(explained_model(arrays=training)), files=[str(colours)])
    assert run(settings) == 0


def test_a_file_that_is_named_comes_first(
    explained_model: ExplainedModel,
    training: dict[str, Any],
    colours: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "mine.npz", **training | {"positions": np.arange(5)})
    options = {"json": True, "neighbors": str(tmp_path / "mine.npz")}
    assert predict(explained_model("without"), colours / "0-red.png", **options) == 0
    found = told(capsys.readouterr().out)
    assert [image["position"] for image in found[0][0]["training_images"]] == [0, 3]
    assert predict(explained_model("with", arrays=training), colours / "0-red.png", **options) == 0
    assert told(capsys.readouterr().out) == found


def test_a_remote_model_has_no_training_images() -> None:
    class Client:
        def model_config(self, name: str) -> str:
            return name

    assert RemoteModel(Client(), "m").training_images is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"entry_labels": np.array([0, 1, 1])},
            "entry 1 is of class 1, but the model says class 2, so",
        ),
        (
            {"indices": np.zeros((1, 2), np.int32), "entry_labels": np.array([0])},
            "1 entries, but the model named",
        ),
        ({"labels": np.array([0, 3, 2, 0, 1])}, "an image of class 3, but the model has 3 classes"),
        ({"images": np.zeros((5, 3, 4, 5), np.uint8)}, r"images are 5x4 with 3 channel.*the model takes 6x4"),
        ({"images": np.zeros((5, 3, 9, 6), np.uint8)}, "images are 6x9"),
        ({"images": np.zeros((5, 1, 4, 6), np.uint8)}, r"images are 6x4 with 1 channel\(s\)"),
    ],
)
def test_images_of_another_model_end_the_command(
    explained_model: ExplainedModel,
    training: dict[str, Any],
    colours: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "other.npz"
    np.savez(file, **training | changes)
    with pytest.raises(TrainingImagesError, match=words) as caught:
        predict(explained_model(), colours / "1-green.png", neighbors=str(file))
    assert str(file) in str(caught.value)
    assert "or export the model again" in str(caught.value)
    words_given = ["predict", str(tmp_path / "repository" / "m"), str(colours), "--explain", "--neighbors", str(file)]
    assert main(words_given) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert err.startswith("mnserve: the training images of ")


@pytest.mark.parametrize("option", ["html", "neighbors"])
def test_options_of_explanations_need_explain(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError, match=f"--{option} is about explanations; add --explain"):
        PredictSettings(model="m", files=["a.png"], **{option: "x"})
    assert main(["predict", "m", "a.png", f"--{option}", "x"]) == 2


def test_a_page_that_cannot_be_written_is_found_out_first(
    explained_model: ExplainedModel, colours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OutputError, match=r"cannot write .*gone/a\.html: the folder .* does not exist"):
        predict(explained_model(), colours, html=str(tmp_path / "gone" / "a.html"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="it is a device or a pipe"):
        predict(explained_model("n"), colours, html=str(tmp_path / "pipe"))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert capsys.readouterr().out == ""


def test_a_page_never_takes_the_place_of_what_is_read(
    explained_model: ExplainedModel, training: dict[str, Any], colours: Path, tmp_path: Path
) -> None:
    model, image, file = explained_model(), colours / "1-green.png", tmp_path / "neighbors.npz"
    np.savez(file, **training)
    for read in (image, file):
        content = read.read_bytes()
        (tmp_path / "link").symlink_to(read)
        for page in (read, tmp_path / "link"):
            with pytest.raises(OutputError, match="is one of the files to read"):
                predict(model, colours, html=str(page), neighbors=str(file))
        assert read.read_bytes() == content
        (tmp_path / "link").unlink()
    with pytest.raises(SettingsError, match=r"give its name, such as page\.html"):
        PredictSettings(model="m", files=["a.png"], explain=True, html="-")


def test_a_full_disk_is_a_sentence_and_leaves_the_old_page(
    explained_model: ExplainedModel, colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OutputError, match=r"cannot write .*page\.html: No space left on device"):
        predict(explained_model(), colours, html=str(page))
    assert page.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_without_a_prediction_no_page_is_written(explained_model: ExplainedModel, tmp_path: Path) -> None:
    assert predict(explained_model(), tmp_path / "gone.png", html=str(tmp_path / "page.html")) == 1
    assert not (tmp_path / "page.html").exists()


def test_images_beyond_the_limit_of_a_page_are_left_out_with_a_note(
    explained_model: ExplainedModel, colours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (6, 4)).save(colours / "3-black.png")
    page = tmp_path / "page.html"
    settings = PredictSettings(model=str(explained_model()), files=[str(colours)], explain=True, html=str(page))
    assert session.predict(settings, max_page_images=2) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert err == f"mnserve predict: note: {page} shows the first 2 of 4 images\n"
    assert page.read_text().count("<article>") == 2


def test_a_finding_of_the_exporter_is_told_with_explanations_alone(
    explained_model: ExplainedModel, colours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = explained_model()
    with (model / "config.pbtxt").open("a") as file:
        file.write('parameters { key: "mn.finding" value { string_value: "explanations <mean> little here" } }\n')
    page = tmp_path / "why.html"
    assert predict(model, colours / "1-green.png", html=str(page)) == 0
    assert capsys.readouterr().err == "mnserve predict: note: explanations <mean> little here\n"
    assert "Note: explanations &lt;mean&gt; little here." in page.read_text()
    assert run(PredictSettings(model=str(model), files=[str(colours / "1-green.png")])) == 0
    assert capsys.readouterr().err == ""

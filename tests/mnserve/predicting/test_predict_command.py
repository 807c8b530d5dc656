"""``mnserve predict`` on a model folder, in process: real files, a real engine, what is written where."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mnserve.commands.predict import run
from mnserve.errors import (
    ImageModelError,
    ModelNotFoundError,
    RequestRefusedError,
    ServerUnreachableError,
    SettingsError,
)
from mnserve.models.opened_model import OpenedModel
from mnserve.predicting.predictor import Failure, Predictor
from mnserve.predicting.settings import PredictSettings

COLOURS = ("red", "lime", "blue")
LABELS = ("red", "green", "blue")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with 0-red.png … 8-blue.png of 6x4 pixels."""
    folder = tmp_path / "images"
    folder.mkdir()
    for index in range(9):
        Image.new("RGB", (6, 4), COLOURS[index % 3]).save(folder / f"{index}-{LABELS[index % 3]}.png")
    return folder


def predict(model: Path | str, *files: Path | str, **options: Any) -> int:
    return run(PredictSettings(model=str(model), files=[str(file) for file in files], **options))


def test_every_file_of_a_folder_gets_its_own_line(
    colour_model: Callable[..., Path], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(colour_model("m"), images) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 9
    for path, line in zip(sorted(images.iterdir()), lines, strict=True):
        assert line.startswith(f"{path}: {path.stem.split('-')[1]} 1.0000, ")
    assert err == ""


def test_json_has_file_label_probability_and_top(
    colour_model: Callable[..., Path], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = images / "1-green.png"
    assert predict(colour_model("m", datatype="FP32"), file, json=True, top=2) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert list(found) == ["file", "label", "probability", "top"]
    assert (found["file"], found["label"]) == (str(file), "green")
    weights = np.exp([1.0, 0.0, 0.0])
    assert found["probability"] == pytest.approx(weights[0] / weights.sum())
    assert [one["label"] for one in found["top"]] == ["green", "red"]


def test_bad_files_do_not_keep_good_ones_from_being_predicted(
    colour_model: Callable[..., Path], images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = colour_model("m")
    (tmp_path / "empty").mkdir()
    (tmp_path / "zero.png").touch()
    (tmp_path / "text.png").write_text("text")
    truncated = tmp_path / "truncated.png"
    truncated.write_bytes((images / "0-red.png").read_bytes()[:-30])
    Image.new("RGB", (9, 9)).save(tmp_path / "large.png")
    Image.fromarray(np.array([[np.nan]], np.float32)).save(tmp_path / "nan.tiff")
    bad = ["gone.png", "empty", "zero.png", "text.png", "truncated.png", "large.png", "nan.tiff"]
    files = [images / "0-red.png", *(tmp_path / name for name in bad), images / "2-blue.png"]
    assert predict(model, *files) == 1
    out, err = capsys.readouterr()
    assert [line.split(": ")[1].split()[0] for line in out.splitlines()] == ["red", "blue"]
    for name in bad:
        assert sum(str(tmp_path / name) in line for line in err.splitlines()) == 1, name
    assert err.splitlines()[-1] == "mnserve predict: 2 predicted, 7 not"
    assert "Traceback" not in err


def test_json_stays_json_when_files_fail(colour_model: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(colour_model("m"), "gone.png", json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert err == "mnserve predict: error: gone.png: no such file; check the name\n"


def test_resize_scales_and_a_grey_model_gets_grey(
    colour_model: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = colour_model("m", dims=(1, 8, 8), labels=("grey",))
    Image.new("RGB", (30, 20), "red").save(tmp_path / "a.jpg")
    assert predict(model, tmp_path / "a.jpg") == 1
    assert "30x20 pixels (width x height), the model takes 8x8; add --resize" in capsys.readouterr().err
    assert predict(model, tmp_path / "a.jpg", resize=True) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a.jpg'}: grey 1.0000\n"


def test_the_rule_that_a_model_states_needs_no_resize(
    colour_model: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = colour_model("m", dims=(3, 8, 8))
    config = model / "config.pbtxt"
    text = config.read_text()
    assert text.count('0..255\\"') == 1
    config.write_text(text.replace('0..255\\"', '0..255\\", \\"fit\\": \\"crop\\"'))
    image = Image.new("RGB", (30, 10), "red")
    image.paste("blue", (10, 0, 20, 10))
    image.save(tmp_path / "a.png")
    for resize in (False, True):
        assert predict(model, tmp_path / "a.png", resize=resize, top=1) == 0
        assert capsys.readouterr().out.startswith(f"{tmp_path / 'a.png'}: blue ")


def test_images_of_any_size_are_batched_by_size(
    colour_model: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = colour_model("m", dims=(3, -1, -1))
    for index, size in enumerate([(4, 4), (4, 4), (5, 3), (4, 4)]):
        Image.new("RGB", size, COLOURS[index % 3]).save(tmp_path / f"{index}.png")
    assert predict(model, *(tmp_path / f"{index}.png" for index in range(4))) == 0
    assert [line.split(": ")[1].split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "red", "green", "blue", "red",
    ]  # fmt: skip


def test_a_foreign_model_is_shown_with_what_was_assumed(
    colour_model: Callable[..., Path], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = colour_model("m", datatype="FP32", labels=None, probabilities=False, write_config=False, gain=2.0)
    assert predict(model, images / "2-blue.png", top=1) == 0
    out, err = capsys.readouterr()
    assert out == f"{images / '2-blue.png'}: 2 {np.exp(2) / (np.exp(2) + 2):.4f}\n"
    assert [line.removeprefix("mnserve predict: note: model 'm' ") for line in err.splitlines()] == [
        "does not say how pixels are scaled (mn.input); 0..1 is assumed",
        "names no labels; classes are numbered",
        "has no output 'probabilities'; shown is the softmax of 'logits'",
    ]


@pytest.mark.parametrize(
    ("content", "expected", "note"),
    [
        ("rot\ngrün\nblau\n", "grün", ""),
        ("rot\r\ngrün\r\nblau", "grün", ""),
        ("\ngrün\nblau\n", "grün", ""),  # a class without a name is still a class
        ("rot\r\ngrün\r\nblau\r\n", "grün", ""),
        ("rot\ngr\rün\nblau\n", "gr\\rün", ""),
        ("rot\ngr\u2028ün\nblau\n", "gr\\u2028ün", ""),  # one name, though some would break the line there
        ("rot\ngrün\n", "1", "names 2 labels for 3 classes; classes are numbered"),
        ("rot\ngrün\nblau\n\n", "1", "names 4 labels for 3 classes; classes are numbered"),
    ],
)
def test_the_label_file_of_a_foreign_model_is_read(
    colour_model: Callable[..., Path],
    images: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    expected: str,
    note: str,
) -> None:
    model = with_label_file(colour_model("m", labels=None), content)
    assert predict(model, images / "1-green.png", top=1) == 0
    out, err = capsys.readouterr()
    assert out.endswith(f": {expected} 1.0000\n")
    assert note in err


def test_stated_labels_come_before_the_label_file(
    colour_model: Callable[..., Path], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = with_label_file(colour_model("m"), "rot\ngrün\nblau\n")
    assert predict(model, images / "1-green.png", top=1) == 0
    assert capsys.readouterr().out.endswith(": green 1.0000\n")


def with_label_file(model: Path, content: str) -> Path:
    text = (model / "config.pbtxt").read_text()
    (model / "config.pbtxt").write_text(
        text.replace('"probabilities" data', '"probabilities" label_filename: "names.txt" data')
    )
    (model / "names.txt").write_bytes(content.encode())
    return model


@pytest.mark.parametrize("name", ["", "a" * 300, "b/" + "a" * 300])
def test_names_that_can_be_no_file_do_not_stop_the_others(
    colour_model: Callable[..., Path], images: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert predict(colour_model("m"), name, images / "0-red.png") == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"{images / '0-red.png'}: red ")
    assert err.splitlines()[-1] == "mnserve predict: 1 predicted, 1 not"
    assert len(err.splitlines()) == 2
    with pytest.raises(SettingsError, match="there is no folder"):
        predict(f"x/{'a' * 300}", "a.png")


def test_a_line_break_in_a_name_does_not_break_the_line(
    colour_model: Callable[..., Path], images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = images / "line\nbreak.png"
    (images / "0-red.png").rename(odd)
    assert predict(colour_model("m"), odd, f"{odd}x", top=1) == 1
    out, err = capsys.readouterr()
    assert out == f"{images}/line\\nbreak.png: red 1.0000\n"
    assert len(err.splitlines()) == 2


def test_file_names_are_no_markup(
    colour_model: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "[red]:smile:.png"
    Image.new("RGB", (6, 4)).save(path)
    assert predict(colour_model("m"), path, f"{path}x") == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"{path}: ")
    assert f"{path}x: no such file" in err


def test_file_names_need_not_be_text(
    colour_model: Callable[..., Path], images: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png"))
    path.write_bytes((images / "0-red.png").read_bytes())
    assert predict(colour_model("m"), path) == 0
    assert capsysbinary.readouterr().out.startswith(os.fsencode(tmp_path) + b"/\\udcff.png: red ")
    assert predict(tmp_path / "repository" / "m", path, json=True) == 0
    assert json.loads(capsysbinary.readouterr().out)[0]["file"] == str(path)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": ""}, "MODEL is empty"),
        ({"files": []}, "no files to predict"),
        ({"top": 0}, "--top is 0; it must be at least 1"),
        ({"timeout": 0.0}, "--timeout is 0.0"),
        ({"timeout": float("nan")}, "--timeout is nan"),
    ],
)
def test_invalid_settings_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        PredictSettings(**({"model": "m", "files": ["a.png"]} | fields))


def test_folders_without_a_model_are_refused(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no folder .*bare name of a model on a running server"):
        predict(tmp_path / "gone", "a.png")
    hidden = repository / ".publishing"
    hidden.mkdir()
    with pytest.raises(ModelNotFoundError, match="has no model"):
        predict(hidden, "a.png")


def test_models_that_take_no_image_are_refused(colour_model: Callable[..., Path]) -> None:
    with pytest.raises(ImageModelError, match=r"takes image UINT8 \[5, 4, 6\]; an image has 1 \(grey\) or 3"):
        predict(colour_model("m", dims=(5, 4, 6), labels=None), "a.png")


class ModelBehindAWire:
    """A local model whose calls are recorded and can fail."""

    labels: tuple[str, ...] = ()

    def __init__(
        self, model: OpenedModel, fail: Callable[[np.ndarray, int], None] = lambda _batch, _call: None
    ) -> None:
        self.model, self.fail = model, fail
        self.config = model.config
        self.batches: list[int] = []

    def infer(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str]) -> Mapping[str, np.ndarray]:
        self.batches.append(len(feeds["image"]))
        self.fail(feeds["image"], len(self.batches))
        return self.model.infer(feeds, outputs)


def outcomes(folder: Path, images: Path, max_call_bytes: int = 2**20, **options: Any) -> tuple[list[Any], list[int]]:
    with OpenedModel(folder.parent, folder.name) as local:
        wire = ModelBehindAWire(local, **options)
        predictor = Predictor(wire, top=1, resize=False, max_call_bytes=max_call_bytes)
        return list(predictor.predict(sorted(images.iterdir()))), wire.batches


def test_batches_are_as_large_as_the_model_takes(colour_model: Callable[..., Path], images: Path) -> None:
    found, batches = outcomes(colour_model("m"), images)
    assert batches == [4, 4, 1]
    assert [one.top[0].label for one in found] == [*LABELS * 3]


def test_a_batch_stays_below_the_message_size(colour_model: Callable[..., Path], images: Path) -> None:
    assert outcomes(colour_model("m"), images, max_call_bytes=2 * 6 * 4 * 3)[1] == [2, 2, 2, 2, 1]


def test_one_refused_image_does_not_take_its_batch_along(colour_model: Callable[..., Path], images: Path) -> None:
    def refuse_green(batch: np.ndarray, _call: int) -> None:
        if (batch[:, 1] == 255).any():
            raise RequestRefusedError("no green today")

    found, batches = outcomes(colour_model("m"), images, fail=refuse_green)
    assert batches == [4, 1, 1, 1, 1, 4, 1, 1, 1, 1, 1]
    for path, one in zip(sorted(images.iterdir()), found, strict=True):
        if "green" in path.name:
            assert one == Failure(reason=f"{path}: no green today")
        else:
            assert (one.file, one.top[0].label) == (str(path), path.stem.split("-")[1])


def test_files_left_when_the_server_goes_away_are_reported(colour_model: Callable[..., Path], images: Path) -> None:
    def gone(_batch: np.ndarray, call: int) -> None:
        if call > 1:
            raise ServerUnreachableError("no server answers")

    found, batches = outcomes(colour_model("m"), images, fail=gone)
    assert batches == [4, 4]
    assert len(found) == 5
    first_lost = images / "4-green.png"
    assert found[-1] == Failure(
        reason=f"{first_lost} and the 4 file(s) after it: not predicted, as no server answers", files=5
    )

"""``LocalModel.predict``: images and rows as Python programs hold them, with the answers of ``mnserve predict``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mnserve import LocalModel, MnServeError
from mnserve.client.images import PixelSize
from mnserve.commands.cli import main
from mnserve.errors import ImageError, ImageModelError, RowError, SettingsError
from mnserve.predicting.image_input import ImageInput
from mnserve.predicting.local_model import _batches
from mnserve.predicting.predictions import ClassPredictions, ValuePredictions

ROWS: list[dict[str, Any]] = [
    {"age": 1, "income": 2.5, "color": "red"},
    {"age": None, "income": 1, "color": "teal", "more": 1},
]


@pytest.fixture
def predict_as_command(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, Any]]]:
    def run(folder: Path, *words: str) -> list[dict[str, Any]]:
        assert main(["predict", str(folder), *words, "--json"]) == 0
        answers: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return answers

    return run


def pixels(folder: Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(file)) for file in sorted(folder.iterdir())])


def test_all_forms_of_a_batch_give_the_answers_of_the_command(
    colour_model: Callable[..., Path], colours: Path, predict_as_command: Callable[..., list[dict[str, Any]]]
) -> None:
    folder = colour_model("m", max_batch_size=2)
    files = sorted(colours.iterdir())
    last = pixels(colours)
    batches: list[Any] = [
        files,
        [str(file) for file in files],
        [Image.open(file) for file in files],
        last,
        last.transpose(0, 3, 1, 2),
        list(last),
        [files[0], last[1].transpose(2, 0, 1), Image.fromarray(last[2])],
    ]
    expected = predict_as_command(folder, str(colours))
    with LocalModel(str(folder)) as model:
        for batch in batches:
            found = model.predict(batch)
            assert isinstance(found, ClassPredictions)
            assert list(found.labels) == [answer["label"] for answer in expected]
            assert found.probabilities.shape == (3, len(found.classes))
            assert found.probabilities.max(axis=1).tolist() == [answer["probability"] for answer in expected]
            assert found.explanations == ()
        alone = model.predict(files[1])
        assert isinstance(alone, ClassPredictions)
        assert alone.labels == (expected[1]["label"],)


def test_other_kinds_of_pixels_become_those_of_the_model(colour_model: Callable[..., Path]) -> None:
    red = Image.new("RGBA", (6, 4), (255, 0, 0, 9))
    with LocalModel(colour_model("m")) as model:
        transparent = model.predict([red, np.asarray(red)])
        grey = model.predict([np.full((4, 6), 255, np.uint8), Image.new("L", (6, 4), 255)])
    assert isinstance(transparent, ClassPredictions)
    assert isinstance(grey, ClassPredictions)
    assert transparent.labels[0] == transparent.labels[1] == "red"
    assert np.array_equal(grey.probabilities[0], grey.probabilities[1])


def test_images_of_another_size_are_fitted_by_the_rule_of_the_model(
    onnx_model: Callable[..., Path], tmp_path: Path, predict_as_command: Callable[..., list[dict[str, Any]]]
) -> None:
    """Red at the left, blue at the right, black between: the center that is cropped is black."""
    nodes: list[Any] = [("Cast", ["image"], ["x"]), ("ReduceMean", ["x", "axes"], ["logits"])]
    from onnx import TensorProto, helper

    made = [helper.make_node(*node) for node in nodes]
    made[0].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    made[1].attribute.append(helper.make_attribute("keepdims", 0))
    image = np.zeros((8, 24, 3), np.uint8)
    image[:, :8, 0], image[:, 16:, 2] = 255, 252
    Image.fromarray(image).save(tmp_path / "wide.png")
    means = {}
    for fit in ("crop", "pad", "stretch", None):
        stated = {"layout": "NCHW", "color": "RGB", "scale": "0..255"} | ({"fit": fit} if fit else {})
        folder = onnx_model(
            f"m-{fit}",
            made,
            {"image": ("UINT8", ["batch", 3, 4, 4])},
            {"logits": ("FLOAT", ["batch", 3])},
            initializers={"axes": np.array([2, 3])},
            config="max_batch_size: 4\n"
            f"parameters {{ key: 'mn.input' value {{ string_value: '{json.dumps(stated)}' }} }}",
        )
        with LocalModel(folder) as model:
            if fit is None:
                with pytest.raises(ImageError, match=r"image 1: the image is 24x8 pixels .* resize=True"):
                    model.predict([image])
            found = model.predict([image], resize=fit is None)
            assert isinstance(found, ClassPredictions)
            means[fit] = found.probabilities[0]
            (answer,) = predict_as_command(folder, str(tmp_path / "wide.png"), *(["--resize"] if fit is None else []))
            assert found.labels[0] == answer["label"]
            assert found.probabilities.max() == answer["probability"]
            assert any("softmax" in note for note in found.notes)
    assert np.array_equal(means[None], means["stretch"])
    assert not np.allclose(means["crop"], means["stretch"])
    assert not np.allclose(means["pad"], means["stretch"])


def test_explanations_come_with_the_training_images_of_the_model(
    explained_model: Callable[..., Path], colour_model: Callable[..., Path], training: dict[str, Any], colours: Path
) -> None:
    with LocalModel(explained_model("m", arrays=training)) as model:
        found = model.predict(pixels(colours), explain=True)
    assert isinstance(found, ClassPredictions)
    assert len(found.explanations) == 3
    assert found.explanations[2].neighbors[0].entry == 2
    assert {item.unadapted_label for item in found.explanations} == {"red"}
    with (
        LocalModel(colour_model("plain")) as plain,
        pytest.raises(ImageModelError, match="does not tell its neighbors"),
    ):
        plain.predict(pixels(colours), explain=True)


@pytest.mark.parametrize(
    ("images", "part"),
    [
        ([], "there are no images"),
        (np.zeros((0, 3, 4, 6), np.uint8), "there are no images"),
        (np.zeros((4, 6, 3), np.uint8), r"array of shape \[4, 6, 3\]; a batch has the shape \[B, C, H, W\]"),
        (np.zeros((1, 3, 4, 6), np.float32), r"image 1: its pixels are float32, .*astype\('uint8'\)"),
        ([np.zeros((3, 4, 6), np.uint8), np.zeros((5, 4, 6), np.uint8)], r"image 2: an array of shape \[5, 4, 6\]"),
        ([Image.new("I;16", (6, 4))], "image 1: the image has pixels of more than 8 bits"),
        ("no/such.png", "no such file"),
    ],
)
def test_images_that_cannot_be_used_are_named(colour_model: Callable[..., Path], images: Any, part: str) -> None:
    with LocalModel(colour_model("m")) as model, pytest.raises(ImageError, match=part):
        model.predict(images)


def test_a_picture_of_the_caller_is_left_as_it_is(colour_model: Callable[..., Path]) -> None:
    picture = Image.new("RGB", (4, 6), (255, 0, 0))
    exif = picture.getexif()
    exif[274] = 6
    picture.info["exif"] = exif.tobytes()
    with LocalModel(colour_model("m")) as model:
        model.predict([picture])
    assert picture.size == (4, 6)


def test_rows_are_mappings_with_missing_and_unknown_values(row_model: Callable[..., Path]) -> None:
    with LocalModel(row_model()) as model:
        found = model.predict(ROWS * 3)
        explained = model.predict(ROWS, explain=True)
    assert isinstance(found, ValuePredictions)
    assert isinstance(explained, ValuePredictions)
    assert found.targets == ("y", "z")
    # y = age + 10 income + 100 position of the color, -1 for an unknown one; a missing number is 0.5.
    assert found.values.tolist() == [[226, -226], [-89.5, 89.5]] * 3
    (note,) = found.notes
    assert "'teal', in 3 rows" in note
    assert [item.entry for item in explained.explanations[0].neighbors] == [0, 1]
    assert explained.explanations[0].unadapted == (np.float32(0), np.float32(0))


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ([], "there are no rows"),
        (ROWS[0], "there are no rows"),
        ([ROWS[0], {"age": 1}], "row 2 has no 'income' and 'color'|row 2 has no 'income', 'color'"),
        ([{**ROWS[0], "age": "old"}], "row 1: column 'age' is 'old', which is no number"),
        ([[1, 2, "red"]], "row 1 is list; give a mapping"),
        (np.zeros((2, 3)), r"takes categories \(color\)"),
    ],
)
def test_rows_that_cannot_be_used_are_named(row_model: Callable[..., Path], rows: Any, part: str) -> None:
    with LocalModel(row_model()) as model, pytest.raises(RowError, match=part):
        model.predict(rows)


def test_numbers_alone_may_be_an_array(onnx_model: Callable[..., Path]) -> None:
    stated = {"layout": "rows", "columns": ["a", "b"], "target": "kind"}
    parameters = {"mn.input": stated, "mn.labels": ["small", "large"]}
    folder = onnx_model(
        "m",
        [("MatMul", ["row", "factors"], ["logits"])],
        {"row": ("FLOAT", ["batch", 2])},
        {"logits": ("FLOAT", ["batch", 2])},
        initializers={"factors": np.array([[-1, 1], [-1, 1]], np.float32)},
        config="max_batch_size: 2\n"
        + "\n".join(
            f"parameters {{ key: '{key}' value {{ string_value: {json.dumps(json.dumps(value))} }} }}"
            for key, value in parameters.items()
        ),
    )
    with LocalModel(folder) as model:
        found = model.predict(np.array([[-1, -2], [1, 2], [0.5, 0]], np.float64))
        assert isinstance(found, ClassPredictions)
        assert found.labels == ("small", "large", "large")
        assert found.probabilities[1, 1] == pytest.approx(1 / (1 + np.exp(-6)))
        with pytest.raises(RowError, match=r"float64 \[2, 3\]; the model takes numbers of shape \[B, 2\]"):
            model.predict(np.zeros((2, 3)))
        with pytest.raises(RowError, match="row 2: column 'a' has no value"):
            model.predict(np.array([[1, 2], [np.nan, 1]]))
        for unusable, part in (
            (np.inf, "'inf', which is no number"),
            (1e39, "more than 32-bit floating point can hold"),
        ):
            with pytest.raises(RowError, match=f"row 3: column 'b' is .*{part}"):
                model.predict(np.array([[1, 2], [3, 4], [5, unusable]]))
        for empty in (np.zeros((0, 2)), []):
            with pytest.raises(RowError, match="there are no rows"):
                model.predict(empty)
        with pytest.raises(RowError, match=r"float64 \[\]; the model takes numbers"):
            model.predict(np.array(1.0))
        with pytest.raises(SettingsError, match="resize is about images"):
            model.predict(np.zeros((2, 2)), resize=True)


def test_a_folder_that_is_no_model_is_named(tmp_path: Path, colour_model: Callable[..., Path]) -> None:
    folder = colour_model("m")
    for name, part in ((tmp_path / "no" / "model", "does not exist"), (folder.parent / "n", "no model 'n'; it has m")):
        with pytest.raises(MnServeError, match=part):
            LocalModel(name)


def test_a_model_is_opened_by_repository_and_name_too(colour_model: Callable[..., Path]) -> None:
    folder = colour_model("m")
    with LocalModel.open(folder.parent, "m") as model:
        assert (model.version, model.config.name) == (1, "m")


def test_a_call_carries_images_of_one_size_and_no_more_than_fit() -> None:
    size = PixelSize(channels=3, height=None, width=None)
    taken = ImageInput(
        name="image", dtype=np.dtype(np.float32), unit_scale=True, channels_last=True, size=size, max_batch=4
    )
    small, large = np.zeros((4, 4, 3), np.uint8), np.zeros((8, 4, 3), np.uint8)
    huge = np.zeros((1024, 512, 3), np.uint8)  # 6 MB as float32; a call carries 16
    given = [*[small] * 5, large, small, *[huge] * 3]
    assert [len(batch) for batch in _batches(iter(given), taken)] == [4, 1, 1, 1, 2, 1]

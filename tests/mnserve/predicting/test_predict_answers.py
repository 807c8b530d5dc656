"""Model outputs to labelled probabilities."""

from __future__ import annotations

import json

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mnserve.errors import ImageModelError
from mnserve.predicting.answers import AnswerReader, Label
from mnserve.protocol.model_config_pb2 import ModelConfig

BOTH = """
output { name: "logits" data_type: TYPE_FP32 dims: 3 }
output { name: "probabilities" data_type: TYPE_FP32 dims: 3 }
"""


def reader(text: str = BOTH, *, labels: tuple[str, ...] = (), stated: str | None = None) -> AnswerReader:
    config = text_format.Parse(text, ModelConfig(name="m"))
    if stated is not None:
        config.parameters["mn.labels"].string_value = stated
    return AnswerReader(config, labels)


def test_probabilities_are_read_as_they_are() -> None:
    answers = reader(stated=json.dumps(["cat", "dog", "owl"]))
    (result,) = answers.read({"probabilities": np.array([[0.2, 0.7, 0.1]])}, ["x.png"], 2)
    assert answers.output == "probabilities"
    assert result.top == (Label(label="dog", probability=0.7), Label(label="cat", probability=0.2))
    assert answers.notes == ()
    assert result.to_json() == {
        "file": "x.png",
        "label": "dog",
        "probability": 0.7,
        "top": [{"label": "dog", "probability": 0.7}, {"label": "cat", "probability": 0.2}],
    }


def test_rows_keep_their_files() -> None:
    scores = np.eye(3)[[2, 0, 1]]
    found = reader(labels=("a", "b", "c")).read({"probabilities": scores}, ["f0", "f1", "f2"], 1)
    assert [(one.file, one.top[0].label) for one in found] == [("f0", "c"), ("f1", "a"), ("f2", "b")]


def test_other_outputs_go_through_a_softmax_that_is_noted() -> None:
    answers = reader('output { name: "scores" data_type: TYPE_FP32 dims: 2 }', labels=("a", "b"))
    (result,) = answers.read({"scores": np.array([[1000.0, 1000.0 + np.log(3.0)]])}, ["x"], 2)
    assert result.top[0].label == "b"
    assert result.top[0].probability == pytest.approx(0.75)
    assert answers.notes == ("model 'm' has no output 'probabilities'; shown is the softmax of 'scores'",)


def test_a_distribution_under_another_name_is_not_softened_again() -> None:
    answers = reader('output { name: "softmax" data_type: TYPE_FP32 dims: 2 }', labels=("a", "b"))
    (result,) = answers.read({"softmax": np.array([[0.25, 0.75]], np.float32)}, ["x"], 1)
    assert result.top[0].probability == pytest.approx(0.75)
    assert answers.notes == ()


@given(arrays.arrays(np.float64, (3, 5), elements=st.floats(-1e6, 1e6)))
def test_any_finite_scores_become_ordered_probabilities(scores: np.ndarray) -> None:
    answers = reader('output { name: "y" data_type: TYPE_FP64 dims: 5 }')
    for result, row in zip(answers.read({"y": scores}, ["a", "b", "c"], 5), scores, strict=True):
        probabilities = [one.probability for one in result.top]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1.0, abs=2e-3)
        assert int(result.top[0].label) == int(np.argmax(row))


def test_the_parameter_comes_before_labels_beside_the_model() -> None:
    assert reader(labels=("a", "b", "c"), stated='["x", "y", "z"]').labels == ("x", "y", "z")
    assert reader(labels=("a", "b", "c")).labels == ("a", "b", "c")


def test_without_labels_classes_are_numbered() -> None:
    answers = reader()
    (result,) = answers.read({"probabilities": np.array([[0.0, 0.0, 1.0]])}, ["x"], 1)
    assert result.top[0].label == "2"
    assert answers.notes == ("model 'm' names no labels; classes are numbered",)


def test_a_wrong_number_of_labels_is_not_trusted() -> None:
    answers = reader(labels=("a", "b"))
    (result,) = answers.read({"probabilities": np.array([[0.0, 0.0, 1.0]])}, ["x"], 1)
    assert result.top[0].label == "2"
    assert answers.notes == ("model 'm' names 2 labels for 3 classes; classes are numbered",)


def test_answers_that_are_not_finite_are_no_class() -> None:
    with pytest.raises(ImageModelError, match=r"2 values in 'probabilities' that are NaN or infinite"):
        reader().read({"probabilities": np.array([[np.nan, 0.5, np.inf]])}, ["x"], 1)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3, 1), (6,), (2, 0)])
def test_answers_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ImageModelError, match=r"answered 2 image\(s\).*scores for classes have the shape \[2, classes\]"
    ):
        reader().read({"probabilities": np.zeros(shape)}, ["x", "y"], 1)


def test_one_image_may_come_back_without_a_batch() -> None:
    (result,) = reader().read({"probabilities": np.array([0.1, 0.8, 0.1])}, ["x"], 1)
    assert result.top[0].label == "1"


def test_a_model_without_scores_is_refused_with_what_it_gives() -> None:
    with pytest.raises(ImageModelError, match=r"gives boxes INT64 \[4\]; predict reads class scores"):
        reader('output { name: "boxes" data_type: TYPE_INT64 dims: 4 }')


@pytest.mark.parametrize("stated", ["", "{}", "[1, 2]"])
def test_a_damaged_parameter_is_named(stated: str) -> None:
    with pytest.raises(ImageModelError, match=r"mn\.labels = .*not a JSON list of names"):
        reader(stated=stated)

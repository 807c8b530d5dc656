"""Batches of the sizes that are allowed, and padding in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.engines.base import EngineOptions, TensorSpec
from mnserve.engines.fake import FakeEngine
from mnserve.engines.padded import PaddedEngine
from mnserve.engines.padding import pad
from mnserve.errors import EngineInputError, EngineRunError, ModelConfigError
from mnserve.models.loading import LoadedModel, LoadOptions, load
from mnserve.models.opened_model import OpenedModel

WriteModel = Callable[..., Path]
Array = np.ndarray[Any, Any]


def rows(count: int) -> dict[str, Array]:
    return {"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2)}


def test_batches_in_between_are_padded_with_the_last_row_and_cut_again() -> None:
    fake = FakeEngine()
    engine = PaddedEngine(fake, (2, 4))
    for count in (1, 2, 3, 4):
        (found,) = engine.run(rows(count), ["y"])
        np.testing.assert_array_equal(found, rows(count)["x"] * 2)
    assert [call["x"].tolist() for call in fake.calls[:1]] == [[[0, 1], [0, 1]]]
    assert fake.calls[2]["x"].tolist() == [[0, 1], [2, 3], [4, 5], [4, 5]]
    assert [len(call["x"]) for call in fake.calls] == [2, 2, 4, 4]


def test_a_batch_of_an_allowed_size_is_not_copied() -> None:
    fake, feeds = FakeEngine(), rows(2)
    PaddedEngine(fake, (2, 4)).run(feeds, ["y"])
    assert fake.calls[0]["x"] is feeds["x"]


def test_strings_and_rows_of_one_element_are_padded_too() -> None:
    text = np.array([[b"a"], [b"bc"]], dtype=object)
    assert pad(text, np.empty((3, 1), dtype=object)).tolist() == [[b"a"], [b"bc"], [b"bc"]]
    assert pad(np.array([1, 2]), np.zeros(4, int)).tolist() == [1, 2, 2, 2]
    assert pad(np.zeros((0, 2)), np.ones((2, 2))).tolist() == [[0, 0], [0, 0]]


def test_a_batch_beyond_the_largest_size_is_refused() -> None:
    with pytest.raises(EngineInputError, match="5 rows is larger than the largest allowed, 4"):
        PaddedEngine(FakeEngine(), (2, 4)).run(rows(5), ["y"])


def test_outputs_that_are_no_batch_are_found_out() -> None:
    def total(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": feeds["x"].sum(axis=0, keepdims=True)}

    with pytest.raises(EngineRunError, match=r"'y' has shape \[1, 2\] for a batch of 4 rows"):
        PaddedEngine(FakeEngine(function=total), (4,)).run(rows(1), ["y"])


def test_a_padded_engine_keeps_tensors_metadata_and_close_of_its_engine() -> None:
    fake = FakeEngine()
    engine = PaddedEngine(fake, (2, 4))
    assert (engine.inputs, engine.outputs, engine.metadata) == (fake.inputs, fake.outputs, {})
    engine.close()
    assert fake.closed


def fixed(repository: Path, onnx_model: WriteModel, sizes: str | None, **fields: Any) -> LoadedModel:
    """A model whose file takes four rows at a time, loaded."""
    tensor = ("FLOAT", [4, 2])
    parameter = "" if sizes is None else f'parameters {{ key: "mn.allowed_batch_sizes" value {{ {sizes} }} }}'
    onnx_model(
        "m", [("Add", ["x", "x"], ["y"])], {"x": tensor}, {"y": tensor}, config=f"{fields.pop('text', '')} {parameter}"
    )
    return load(repository, "m", 1, LoadOptions(engine=EngineOptions(intra_op_threads=1), **fields))


@pytest.mark.parametrize("text", ["", "max_batch_size: 4", "max_batch_size: 3"])
def test_a_model_of_a_fixed_batch_takes_smaller_ones(repository: Path, onnx_model: WriteModel, text: str) -> None:
    model = fixed(repository, onnx_model, 'string_value: "[4]"', text=text)
    most = 3 if "3" in text else 4
    assert model.signature.max_batch_size == model.batching.max_batch_size == most
    assert [rule.dims for rule in model.signature.inputs] == [(2,)]
    for count in range(1, most + 1):
        np.testing.assert_array_equal(model.engine.run(rows(count), ["y"])[0], rows(count)["x"] * 2)
    model.engine.close()


def test_a_model_of_a_fixed_batch_has_no_batch_dimension_otherwise(repository: Path, onnx_model: WriteModel) -> None:
    model = fixed(repository, onnx_model, None)
    assert model.signature.max_batch_size == 0
    model.engine.close()


@pytest.mark.parametrize(
    ("sizes", "text", "words"),
    [
        ('string_value: "[2]"', "", r"\[2\], but input 'x' has shape \[4, 2\]"),
        ('string_value: "[2, 4]"', "", r"\[2, 4\], but input 'x' has shape \[4, 2\]"),
        ('string_value: "[4]"', "max_batch_size: 8", "less than max_batch_size 8"),
        ('string_value: "[4]"', 'input { name: "x" data_type: TYPE_FP32 dims: [4, 2] }', "max_batch_size is 0"),
        *(
            (f"string_value: {json.dumps(wrong)}", "", "a JSON list of batch sizes")
            for wrong in (
                "4",
                "[]",
                "[0]",
                "[true]",
                "[1.5]",
                "x",
                '["4"]',
                "[4294967296]",
                "",
            )
        ),
    ],
)
def test_invalid_allowed_batch_sizes_are_refused(
    repository: Path, onnx_model: WriteModel, sizes: str, text: str, words: str
) -> None:
    with pytest.raises(ModelConfigError, match=rf"model 'm': .*{words}"):
        fixed(repository, onnx_model, sizes, text=text)


def test_every_allowed_size_is_warmed_up(repository: Path, double_model: WriteModel) -> None:
    parameter = 'parameters { key: "mn.allowed_batch_sizes" value { string_value: "[8, 2, 4]" } }'
    double_model("m", config=f"max_batch_size: 6 {parameter}")
    fake = FakeEngine()
    load(repository, "m", 1, LoadOptions(factory=lambda path, options: fake))
    assert {len(call["x"]) for call in fake.calls} == {2, 4, 8}


def test_a_model_alone_in_a_process_is_padded_as_well(repository: Path, double_model: WriteModel) -> None:
    parameter = 'parameters { key: "mn.allowed_batch_sizes" value { string_value: "[2, 4]" } }'
    double_model("m", config=f"max_batch_size: 4 {parameter}")
    with OpenedModel(repository, "m", EngineOptions(intra_op_threads=1)) as model:
        x = np.ones((3, 4), np.float32)
        assert model.infer({"x": x}, ["y"])["y"].tolist() == (2 * x).tolist()


def test_an_engine_without_inputs_has_no_batch() -> None:
    output = TensorSpec(name="y", datatype="FP32", shape=(4,))
    with pytest.raises(ModelConfigError, match="the model has no inputs"):
        PaddedEngine(FakeEngine(inputs=(), outputs=(output,)), (4,))

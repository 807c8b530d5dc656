"""Tensors with other shapes for callers than for the model: ``reshape`` of config.pbtxt, through real models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.engines.reshaped import Reshape, ReshapedEngine
from mnserve.errors import EngineInputError, EngineRunError, ModelConfigError
from mnserve.models.loading import LoadedModel, LoadOptions, load

WriteModel = Callable[..., Path]


@pytest.fixture
def write(onnx_model: WriteModel) -> Callable[..., None]:
    """Writes the model ``m``: y = 2 x, of these shapes in the file, with a config.pbtxt."""
    from onnx import helper

    def make(shape: list[Any] | None, config: str, out: list[Any] | None = None) -> None:
        nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
        onnx_model("m", nodes, {"x": ("FLOAT", shape)}, {"y": ("FLOAT", shape if out is None else out)}, config=config)

    return make


def tensors(dims: str, reshape: str, batch: int) -> str:
    """Text of a config.pbtxt that gives input and output the same reshape."""
    sizes = f"data_type: TYPE_FP32 dims: {dims} reshape {{ shape: {reshape} }}"
    return f'max_batch_size: {batch} input {{ name: "x" {sizes} }} output {{ name: "y" {sizes} }}'


def loaded(root: Path) -> LoadedModel:
    return load(root, "m", 1, LoadOptions(engine=EngineOptions(intra_op_threads=1)))


@pytest.mark.parametrize(
    ("file", "dims", "reshape", "batch", "sent"),
    [
        ([1, 3, 2, 2], "[3, 2, 2]", "[1, 3, 2, 2]", 0, (3, 2, 2)),
        (["n", 1, 6], "[2, 3]", "[1, 6]", 8, (4, 2, 3)),
        (["n"], "[1]", "[]", 8, (3, 1)),
        ([], "[1]", "[]", 0, (1,)),
        (["n", "a", 4, "b"], "[-1, 2, 2, -1]", "[-1, 4, -1]", 8, (2, 3, 2, 2, 5)),
        (["a", "b"], "[-1, 1, -1]", "[-1, -1]", 0, (3, 1, 2)),
        ([None, None], "[1, -1]", "[-1]", 4, (2, 1, 7)),
        (None, "[2, 3]", "[6]", 4, (2, 2, 3)),
        (None, "[-1, 1]", "[-1]", 0, (5, 1)),
    ],
)
def test_callers_see_dims_and_the_model_its_own_shape(
    repository: Path,
    write: Callable[..., None],
    file: list[Any] | None,
    dims: str,
    reshape: str,
    batch: int,
    sent: tuple[int, ...],
) -> None:
    write(file, tensors(dims, reshape, batch))
    model = loaded(repository)
    expected = [-1] * bool(batch) + json.loads(dims)
    assert model.signature.full_shape(model.signature.inputs[0]) == expected
    assert model.signature.full_shape(model.signature.outputs[0]) == expected
    assert model.config.max_batch_size == batch
    x = np.arange(np.prod(sent), dtype=np.float32).reshape(sent)
    (y,) = model.engine.run({"x": x}, ["y"])
    np.testing.assert_array_equal(y, x * 2)
    model.engine.close()


@pytest.mark.parametrize(
    ("file", "dims", "reshape", "batch", "words"),
    [
        ([1, 4], "[5]", "[1, 4]", 0, r"dims \[5\] and reshape \[1, 4\], which hold different numbers of elements"),
        ([1, 4], "[-1]", "[1, 4]", 0, "different numbers of elements"),
        (["a", 2, "b"], "[2, -1, -1]", "[-1, 2, -1]", 0, "between sizes of -1"),
        ([1, 4], "[0, 4]", "[0]", 0, r"has dims \[0, 4\]; each size is -1"),
        ([1, 4], "[4]", "[-2, 4]", 0, r"has reshape \[-2, 4\]; each size is -1"),
        ([1, 4], "[4]", "[4, 1]", 0, r"has shape \[1, 4\] in the model file, but its reshape .* says \[4, 1\]"),
        ([2, 4], "[4]", "[1, 4]", 0, r"shape \[2, 4\] in the model file, but its reshape"),
        (["n", 4], "[2, 2]", "[2, 2]", 8, r"says \[-1, 2, 2\]; correct the reshape, which leaves the batch dimension"),
        ([1, 4], "[2, 2]", "[4]", 8, r"no batch of any size; set max_batch_size to 0, and .* reshape to \[1, 4\]$"),
    ],
)
def test_a_reshape_that_cannot_be_is_refused(
    repository: Path, write: Callable[..., None], file: list[Any], dims: str, reshape: str, batch: int, words: str
) -> None:
    write(file, tensors(dims, reshape, batch))
    with pytest.raises(ModelConfigError, match=rf"model 'm': input 'x'.*{words}|model 'm': output 'y'.*{words}"):
        loaded(repository)


def test_padding_stays_below_the_reshape(repository: Path, write: Callable[..., None]) -> None:
    sizes = 'parameters { key: "mn.allowed_batch_sizes" value { string_value: "[4]" } }'
    write([4, 6], tensors("[2, 3]", "[6]", 4) + sizes)
    model = loaded(repository)
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    (y,) = model.engine.run({"x": x}, ["y"])
    np.testing.assert_array_equal(y, x * 2)
    model.engine.close()


def test_an_answer_of_another_shape_than_the_reshape_is_an_error() -> None:
    engine = ReshapedEngine(
        FakeEngine(function=lambda feeds: {"y": np.zeros((2, 3), dtype=np.float32)}),
        {"x": Reshape(callers=(1, 2), model=(2,))},
        {"y": Reshape(callers=(1, 2), model=(2,))},
        batched=True,
    )
    with pytest.raises(EngineInputError, match=r"input 'x' has shape \[2, 3\], expected \[-1, 1, 2\]"):
        engine.run({"x": np.zeros((2, 3), dtype=np.float32)}, ["y"])
    with pytest.raises(EngineRunError, match=r"'y' comes with shape \[2, 3\], but its reshape .* says \[-1, 2\]"):
        engine.run({"x": np.zeros((2, 1, 2), dtype=np.float32)}, ["y"])


def test_an_optional_input_has_no_batch_dimension_to_keep(repository: Path, onnx_model: WriteModel) -> None:
    tensor = "data_type: TYPE_FP32 dims: [2, 2] reshape { shape: [4] }"
    optional = f'input {{ name: "plus" {tensor} optional: true }}'
    onnx_model(
        "m",
        [("Add", ["x", "plus"], ["y"])],
        {"x": ("FLOAT", ["n", 4]), "plus": ("FLOAT", [4])},
        {"y": ("FLOAT", ["n", 4])},
        initializers={"plus": np.ones(4, np.float32)},
        config=f'max_batch_size: 8 input {{ name: "x" {tensor} }} {optional} output {{ name: "y" {tensor} }}',
    )
    model = loaded(repository)
    x = np.zeros((3, 2, 2), np.float32)
    (y,) = model.engine.run({"x": x}, ["y"])
    np.testing.assert_array_equal(y, x + 1)
    (y,) = model.engine.run({"x": x, "plus": np.full((2, 2), 5, np.float32)}, ["y"])
    np.testing.assert_array_equal(y, x + 5)
    model.engine.close()


def test_outputs_of_another_rank_than_the_file_says_can_be_reshaped(
    repository: Path, write: Callable[..., None]
) -> None:
    x = "data_type: TYPE_FP32 dims: [1, 1, 4]"
    write(
        [1, 1, 4],
        f'input {{ name: "x" {x} }} output {{ name: "y" {x[:-9]}[4] reshape {{ shape: [1, 1, 4] }} }}',
        [1, "n"],
    )
    model = loaded(repository)
    (y,) = model.engine.run({"x": np.ones((1, 1, 4), np.float32)}, ["y"])
    assert y.tolist() == [2.0] * 4
    model.engine.close()


def test_the_message_about_another_shape_leads_to_a_reshape(repository: Path, write: Callable[..., None]) -> None:
    dims = 'input { name: "x" data_type: TYPE_FP32 dims: [4] '
    write([1, 4], dims + "}")
    with pytest.raises(
        ModelConfigError, match=r"set its dims to \[1, 4\], or keep them and add (reshape .*)$"
    ) as caught:
        loaded(repository)
    remedy = str(caught.value).rpartition(" add ")[2]
    (repository / "m" / "config.pbtxt").write_text(f"{dims} {remedy} }}")
    model = loaded(repository)
    assert model.signature.full_shape(model.signature.inputs[0]) == [4]
    model.engine.close()
    (repository / "m" / "config.pbtxt").write_text('input { name: "x" data_type: TYPE_FP32 dims: [5] }')
    with pytest.raises(ModelConfigError, match=r"set its dims to \[1, 4\]$"):
        loaded(repository)

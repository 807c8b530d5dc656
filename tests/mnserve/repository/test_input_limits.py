"""Limits of inputs in config.pbtxt, and dimensions that a model file gives one name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from mnserve import LocalModel
from mnserve.codec.input_rules import RowLimit, SharedAxis, ValueRange
from mnserve.engines.base import TensorSpec
from mnserve.errors import InvalidRequestError, ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_config import complete, signature
from mnserve.repository.shared_axes import shared_axes

A = TensorSpec(name="a", datatype="FP32", shape=(-1, -1), axes=("rows", "words"))
B = TensorSpec(name="b", datatype="INT64", shape=(-1,), axes=("words",))
Y = TensorSpec(name="y", datatype="FP32", shape=(-1,))


def rules(**parameters: str) -> object:
    config = ModelConfig(name="m", max_batch_size=0)
    for name, value in parameters.items():
        config.parameters[f"mn.{name}"].string_value = value
    return signature(complete(config, [A, B], [Y], max_batch_size=0), [A, B], [Y]).input_rules


def test_both_limits_and_shared_names_are_read() -> None:
    found = rules(row_limit='{"inputs": ["a", "b"], "most": 9}', value_ranges='{"b": {"least": 0, "below": "a"}}')
    assert (found.row_limit, found.value_ranges, found.shared_axes) == (  # type: ignore[attr-defined]
        RowLimit(inputs=("a", "b"), most=9),
        (ValueRange(input="b", least=0, below="a"),),
        (SharedAxis(name="words", places=(("a", 1), ("b", 0))),),
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("row_limit", "9"),
        ("row_limit", "{"),
        ("row_limit", '{"inputs": ["c"], "most": 9}'),
        ("row_limit", '{"inputs": [], "most": 9}'),
        ("row_limit", '{"inputs": ["a"], "most": 0}'),
        ("row_limit", '{"inputs": ["a"], "most": true}'),
        ("row_limit", '{"inputs": ["a"]}'),
        ("value_ranges", "[]"),
        ("value_ranges", '{"a": {"least": 0, "below": 2}}'),
        ("value_ranges", '{"c": {"least": 0, "below": 2}}'),
        ("value_ranges", '{"b": {"least": 0, "below": "c"}}'),
        ("value_ranges", '{"b": {"least": 2, "below": 2}}'),
        ("value_ranges", '{"b": {"least": 0.5, "below": 2}}'),
        ("value_ranges", '{"b": {"least": 0}}'),
    ],
)
def test_other_texts_are_refused(name: str, text: str) -> None:
    with pytest.raises(ModelConfigError, match=f"parameter mn.{name} is .* in config.pbtxt; expected "):
        rules(**{name: text})


@pytest.mark.parametrize(
    ("batched", "axes", "names"),
    [
        (False, (("n", "w"), ("n", "w")), ["n", "w"]),
        (True, (("n", "w"), ("n", "w")), ["w"]),
        (True, (("n", "w"), ("n", "v")), []),
        (False, (("n", "n"), ("m", "w")), ["n"]),
        (False, (("unk__1", "?"), ("unk__1", "?")), []),
        (False, (("", "1"), ("", "1")), []),
        (False, ((), ("n",)), []),
    ],
)
def test_names_that_stand_twice_are_shared(batched: bool, axes: tuple[tuple[str, ...], ...], names: list[str]) -> None:
    specs = [
        TensorSpec(name=name, datatype="FP32", shape=(-1, -1), axes=found)
        for name, found in zip("ab", axes, strict=True)
    ]
    assert [axis.name for axis in shared_axes(specs, batched=batched)] == names


@pytest.mark.parametrize("reshape", [False, True])
def test_a_foreign_model_refuses_sizes_that_its_file_says_are_one(tmp_path: Path, reshape: bool) -> None:
    """ONNX Runtime would answer: the comparison of both sums needs no equal sizes."""
    graph = "(float[k,2] a, float[k] b) => (float[1] y) { s = ReduceSum<keepdims=0>(a) t = ReduceSum<keepdims=0>(b) "
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> m {graph} u = Sub(s, t) '
        "o = Constant<value = int64[1] {1}>() y = Reshape(u, o) }"
    )
    (tmp_path / "m/1").mkdir(parents=True)
    onnx.save(model, tmp_path / "m/1/model.onnx")
    config = "max_batch_size: 0 input { name: 'a' data_type: TYPE_FP32 dims: [-1, 2] }"
    second = "dims: [-1, 1] reshape { shape: [-1] }" if reshape else "dims: [-1]"
    (tmp_path / "m/config.pbtxt").write_text(f"{config} input {{ name: 'b' data_type: TYPE_FP32 {second} }}")
    shape = (3, 1) if reshape else (3,)
    with LocalModel(tmp_path / "m") as local:
        feeds = {"a": np.ones((4, 2), np.float32), "b": np.ones(shape, np.float32)}
        if reshape:  # callers see other dimensions, which the file does not name
            assert local.infer(feeds, ["y"])["y"].tolist() == [5]
            return
        with pytest.raises(InvalidRequestError, match=r"input 'b' has size 3 in dimension 0, but input 'a' has size 4"):
            local.infer(feeds, ["y"])
        assert local.infer(feeds | {"b": np.ones(4, np.float32)}, ["y"])["y"].tolist() == [4]

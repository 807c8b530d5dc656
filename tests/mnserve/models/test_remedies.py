"""Messages about a configuration lead out: each is provoked, and what it advises is done."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from mnserve.errors import MnServeError
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import load

OPEN = "(float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
FIXED = "(float[2,4] x) => (float[2,4] y) { y = Relu(x) }"
TWO = "(float[N,4] x, float[N,4] z) => (float[N,4] y) { y = Add(x, z) }"


def x(dims: str, name: str = "x", kind: str = "TYPE_FP32", more: str = "") -> str:
    return f'input {{ name: "{name}" data_type: {kind} dims: [{dims}] {more} }}'


def sample(dims: str, data: str = "zero_data: true", more: str = "", kind: str = "TYPE_FP32") -> str:
    value = f"data_type: {kind} dims: [{dims}] {data}"
    return f'max_batch_size: 2 model_warmup {{ {more} inputs {{ key: "x" value {{ {value} }} }} }}'


def parameter(name: str, value: str) -> str:
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


@pytest.mark.parametrize(
    ("graph", "wrong", "advice", "right"),
    [
        (FIXED, "max_batch_size: 8", "set max_batch_size to 0 instead of 8", "max_batch_size: 0"),
        (FIXED, f"max_batch_size: 8 {x('4')}", r"and dims to \[2, 4\]", f"max_batch_size: 0 {x('2, 4')}"),
        (OPEN, f"max_batch_size: 8 {x('5')}", r"set its dims to \[4\]", f"max_batch_size: 8 {x('4')}"),
        (OPEN, f"max_batch_size: 0 {x('4')}", r"max_batch_size", f"max_batch_size: 8 {x('4')}"),
        (
            OPEN,
            f"max_batch_size: 8 {x('4', kind='TYPE_FP16')}",
            "FP32 in the model file",
            f"max_batch_size: 8 {x('4')}",
        ),
        (OPEN, f"max_batch_size: 8 {x('4', name='q')}", "the model file has x", f"max_batch_size: 8 {x('4')}"),
        (
            OPEN,
            f"max_batch_size: 8 {x('4', more='optional: true')}",
            "take optional away",
            f"max_batch_size: 8 {x('4')}",
        ),
        (TWO, f"max_batch_size: 8 {x('4')}", "has input z", f"max_batch_size: 8 {x('4')} {x('4', name='z')}"),
        (
            OPEN,
            "max_batch_size: 2 dynamic_batching { preferred_batch_size: [4] }",
            "from 1 to max_batch_size 2",
            "max_batch_size: 4 dynamic_batching { preferred_batch_size: [4] }",
        ),
        (
            OPEN,
            f"max_batch_size: 0 {parameter('mn.allowed_batch_sizes', '[1, 8]')}",
            "max_batch_size is 0; set it, or remove the parameter",
            f"max_batch_size: 8 {parameter('mn.allowed_batch_sizes', '[1, 8]')}",
        ),
        (
            OPEN,
            f"max_batch_size: 9 {parameter('mn.allowed_batch_sizes', '[1, 8]')}",
            "add a size that holds the largest batch",
            f"max_batch_size: 9 {parameter('mn.allowed_batch_sizes', '[1, 8, 9]')}",
        ),
        (OPEN, parameter("mn.warm_up", "no"), 'expected "true" or "false"', parameter("mn.warm_up", "false")),
        (OPEN, parameter("mn.on_request", "y"), "expected a JSON list of some of the outputs y", ""),
        (OPEN, sample("5"), r"the model takes \[4\]", sample("4")),
        (OPEN, sample("-1"), "sizes have to be given", sample("4")),
        (
            OPEN,
            sample("4", data=""),
            "give zero_data, random_data or input_data_file",
            sample("4", "random_data: true"),
        ),
        (
            OPEN,
            sample("4", more="batch_size: 3"),
            r"may be up to 2 \(max_batch_size\)",
            sample("4", more="batch_size: 2"),
        ),
        (OPEN, sample("4", kind="TYPE_INT8"), "which takes FP32", sample("4")),
        (OPEN, 'backend: "python"', "ONNX", 'backend: "onnxruntime"'),
    ],
)
def test_the_advice_of_a_message_leads_out(repository: Path, graph: str, wrong: str, advice: str, right: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> m {graph}')
    folder = repository / "m" / "1"
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    config = folder.parent / "config.pbtxt"
    config.write_text(wrong)
    with pytest.raises(MnServeError, match=advice):
        load(repository, "m", 1, LoadOptions())
    config.write_text(right)
    load(repository, "m", 1, LoadOptions()).engine.close()

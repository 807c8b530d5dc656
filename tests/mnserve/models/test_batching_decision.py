"""Decision on batches: shown by joined rows where nobody configured them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from mnserve.engines.base import TensorSpec
from mnserve.errors import ModelConfigError
from mnserve.models.joined_rows import obstacle
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import LoadedModel, load
from mnserve.repository.config_override import parse_override

MEAN = "axis = Constant<value = int64[1] {0}>() mean = ReduceMean(x, axis)"
ROWS = "(float[N,4] x) => (float[N,4] y)"
UNNAMED = "(float[?,4] x) => (float[?,4] y)"
SELECTED = (
    "then_branch = same () => (float[N,4] a) { a = Sub(x, mean) }, else_branch = other () => (float[N,4] b) "
    "{ b = Identity(x) }"
)


def write(repository: Path, graph: str, config: str | None = None) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> m {graph}')
    folder = repository / "m" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    path = folder.parent / "config.pbtxt"
    path.unlink(missing_ok=True)
    if config is not None:
        path.write_text(config)


def opened(repository: Path, override: str | None = None, options: LoadOptions | None = None) -> LoadedModel:
    config = None if override is None else parse_override(override, "m")
    model = load(repository, "m", 1, options or LoadOptions(), config)
    model.engine.close()
    return model


DEPENDENT = {
    "sum over rows": "(float[L] x) => (float[L] y) { axis = Constant<value = int64 {0}>() y = CumSum(x, axis) }",
    "names of rows": "(float[num_q,4] queries, float[num_k,4] keys) => (float[num_q,4] y) "
    "{ t = Transpose<perm = [1, 0]>(keys) s = MatMul(queries, t) p = Softmax(s) y = MatMul(p, keys) }",
    "no names": "(float[?,4] queries, float[?,4] keys) => (float[?,4] y) "
    "{ t = Transpose<perm = [1, 0]>(keys) s = MatMul(queries, t) p = Softmax(s) y = MatMul(p, keys) }",
    "transposed": "(float[n,m] x) => (float[m,n] y) { y = Transpose<perm = [1, 0]>(x) }",
    "transposed, no names": "(float[?,?] x) => (float[?,?] y) { y = Transpose<perm = [1, 0]>(x) }",
    "mean": f"{ROWS} {{ {MEAN} y = Sub(x, mean) }}",
    "softmax": f"{ROWS} {{ y = Softmax<axis = 0>(x) }}",
    "scale of all": f"{ROWS} {{ q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z) }}",
    "large values": f"{ROWS} {{ {MEAN} limit = Constant<value = float {{100}}>() largest = ReduceMax<keepdims = 0>(x) "
    f"c = Greater(largest, limit) y = If<{SELECTED}>(c) }}",
    "huge values": f"{ROWS} {{ {MEAN} limit = Constant<value = float {{10000}}>() largest = ReduceMax<keepdims = 0>(x) "
    f"c = Greater(largest, limit) y = If<{SELECTED}>(c) }}",
    "missing values": f"{ROWS} {{ axis = Constant<value = int64[1] {{0}}>() missing = IsNaN(x) known = Not(missing) "
    "none = Constant<value = float {0}>() filled = Where(missing, none, x) floats = Cast<to = 1>(known) "
    "count = ReduceSum(floats, axis) sum = ReduceSum(filled, axis) mean = Div(sum, count) "
    "y = Where(missing, mean, x) }",
    "infinity": f"{ROWS} {{ infinite = IsInf(x) floats = Cast<to = 1>(infinite) any = ReduceMax<keepdims = 0>(floats) "
    "sum = Add(x, any) y = Where(infinite, x, sum) }",
    "negative integers": "(int64[N,4] x) => (int64[N,4] y) { zero = Constant<value = int64 {0}>() "
    "lowest = ReduceMin<keepdims = 0>(x) shift = Min(lowest, zero) y = Sub(x, shift) }",
    "large integers": "(int64[N,4] x) => (int64[N,4] y) { limit = Constant<value = int64 {500}>() "
    "largest = ReduceMax<keepdims = 0>(x) most = Max(largest, limit) y = Sub(x, most) }",
    "bright pixels": "(uint8[N,4] x) => (float[N,4] y) { pixels = Cast<to = 1>(x) "
    "limit = Constant<value = float {200}>() "
    "largest = ReduceMax<keepdims = 0>(pixels) white = Max(largest, limit) y = Div(pixels, white) }",
    "many rows": f"{ROWS} {{ {MEAN} shape = Shape(x) i = Constant<value = int64 {{0}}>() n = Gather(shape, i) "
    f"limit = Constant<value = int64 {{20}}>() c = Greater(n, limit) y = If<{SELECTED}>(c) }}",
    "every third": f"{ROWS} {{ {MEAN} shape = Shape(x) i = Constant<value = int64 {{0}}>() n = Gather(shape, i) "
    f"three = Constant<value = int64 {{3}}>() rest = Mod(n, three) c = Equal(rest, i) y = If<{SELECTED}>(c) }}",
    "faintly": f"{ROWS} {{ {MEAN} small = Constant<value = float {{0.00001}}>() part = Mul(mean, small) "
    "y = Add(x, part) }",
    "beside large numbers": f"(float[N,4] x) => (float[N,8] y) {{ {MEAN} apart = Sub(x, mean) "
    "million = Constant<value = float {1000000}>() large = Mul(x, million) y = Concat<axis = 1>(large, apart) }",
    "position": f"{ROWS} {{ i = Constant<value = int64 {{0}}>() one = Constant<value = int64 {{1}}>() shape = Shape(x) "
    "n = Gather(shape, i) r = Range(i, n, one) axis = Constant<value = int64[1] {1}>() c = Unsqueeze(r, axis) "
    "f = Cast<to = 1>(c) y = Add(x, f) }",
    "repeated": "(float[N,4] x) => (float[N,4] y) { y = Concat<axis = 0>(x, x) }",
    "constant": f"{ROWS} {{ zero = Constant<value = float {{0}}>() y = Mul(x, zero) }}",
    "random": f"{ROWS} {{ r = RandomNormalLike(x) y = Add(x, r) }}",
    "fixed": "(float[2,4] x) => (float[2,4] y) { y = Abs(x) }",
}


@pytest.mark.parametrize("seconds", [1.0, 0.0], ids=["time", "no time"])
@pytest.mark.parametrize("graph", DEPENDENT.values(), ids=DEPENDENT)
def test_rows_that_look_at_each_other_share_no_batch(repository: Path, graph: str, seconds: float) -> None:
    write(repository, graph)
    model = opened(repository, options=LoadOptions(thorough_seconds=seconds))
    assert model.signature.max_batch_size == 0
    assert model.batching.max_batch_size == 0
    assert model.findings.batching.startswith("one request at a time: ")


@pytest.mark.parametrize(
    "graph",
    [
        f"{ROWS} {{ y = Softmax<axis = 1>(x) }}",
        f"{UNNAMED} {{ y = Exp(x) }}",
        "(float[N,C,H,W] x) => (float[N,C,H,W] y) { y = Relu(x) }",
        "(float[unk__1,4] x) => (float[unk__2,4] y) { y = Relu(x) }",
        "(int64[N,4] x) => (int64[N,1] y) { y = ArgMax<axis = 1>(x) }",
    ],
)
def test_rows_that_are_shown_to_be_independent_share_batches(repository: Path, graph: str) -> None:
    write(repository, graph)
    model = opened(repository)
    assert model.signature.max_batch_size == 32
    assert "joined rows gave the answers that they give alone" in model.findings.batching


def test_a_written_0_is_no_missing_value(repository: Path) -> None:
    independent = f"{ROWS} {{ y = Relu(x) }}"
    write(repository, independent, "max_batch_size: 0")
    model = opened(repository)
    assert model.signature.max_batch_size == 0
    assert model.findings.batching == "one request at a time: max_batch_size is 0 in config.pbtxt"
    assert list(model.config.input[0].dims) == [-1, 4]
    write(repository, independent)
    assert opened(repository, '{"max_batch_size": 0}').signature.max_batch_size == 0
    assert opened(repository, '{"maxBatchSize": 0}').signature.max_batch_size == 0
    assert opened(repository, "{}").signature.max_batch_size == 32


def test_configured_batches_are_kept_with_a_warning(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(repository, DEPENDENT["mean"], "max_batch_size: 8")
    model = opened(repository)
    assert model.signature.max_batch_size == 8
    assert "its requests share batches of up to 8 rows, as config.pbtxt says, but output 'y' of 2 joined" in caplog.text
    assert len(model.findings.doubts) == 1
    caplog.clear()
    write(repository, f"{ROWS} {{ y = Relu(x) }}", "max_batch_size: 8")
    assert opened(repository).findings.doubts == ()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_preferred_sizes_need_batches(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(repository, DEPENDENT["mean"], "dynamic_batching { preferred_batch_size: [4] }")
    assert opened(repository).batching.preferred_sizes == ()
    assert "preferred_batch_size is ignored" in caplog.text
    write(repository, f"{ROWS} {{ y = Relu(x) }}", "dynamic_batching { preferred_batch_size: [4] }")
    assert opened(repository).batching.preferred_sizes == (4,)
    write(repository, f"{ROWS} {{ y = Relu(x) }}", "max_batch_size: 0 dynamic_batching { preferred_batch_size: [4] }")
    with pytest.raises(ModelConfigError, match="a preferred batch size is 4"):
        opened(repository)


def test_shapes_of_outputs_are_hints(repository: Path) -> None:
    graph = "(float[1,n] x) => (float[1,s] y) { a = Constant<value = int64[1] {0}>() y = Unsqueeze(x, a) }"
    write(repository, graph)
    assert list(opened(repository).config.output[0].dims) == [-1, -1, -1]
    for dims in ("1, 1, -1", "1, -1", "7"):
        write(repository, graph, f'output {{ name: "y" data_type: TYPE_FP32 dims: [{dims}] }}')
        assert opened(repository).signature.max_batch_size == 0


def test_another_shape_of_an_output_is_warned_of_once(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = "(float[1,4] x) => (float[1,4] y) { y = Identity(x) }"
    config = 'input { name: "x" data_type: TYPE_FP32 dims: [1, 4] } output { name: "y" data_type: TYPE_FP32 dims: [4] }'
    write(repository, graph, config)
    opened(repository)
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(texts) == 1
    assert texts[0].startswith("model 'm': output 'y' has shape [4] by config.pbtxt, but [1, 4] in the model file")


def test_tensors_without_a_rank_take_what_is_configured(repository: Path) -> None:
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", [x], [y])
    write(repository, f"{ROWS} {{ y = Relu(x) }}")
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8),
        repository / "m" / "1" / "model.onnx",
    )
    assert opened(repository).signature.inputs[0].any_shape
    (repository / "m" / "config.pbtxt").write_text(
        'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: [3, -1] }'
    )
    rules = opened(repository).signature
    assert rules.full_shape(rules.inputs[0]) == [-1, 3, -1]
    assert not rules.inputs[0].any_shape


OVERRIDABLE = "(float[N,2] x, float[2] w) => (float[N,2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }"


def test_defaults_of_a_model_are_optional_inputs(repository: Path) -> None:
    write(repository, OVERRIDABLE)
    model = opened(repository)
    assert [rule.name for rule in model.signature.inputs] == ["x"]
    assert [rule.name for rule in model.signature.optional_inputs] == ["w"]
    assert [(tensor.name, tensor.optional) for tensor in model.config.input] == [("x", False), ("w", True)]
    write(repository, OVERRIDABLE, 'input { name: "x" data_type: TYPE_FP32 dims: [-1, 2] optional: true }')
    with pytest.raises(ModelConfigError, match="the model file has no default for it"):
        opened(repository)


def test_samples_show_the_number_of_dimensions(repository: Path) -> None:
    """A sample for a model without a batch dimension has one size more than one for a row."""
    sample = 'model_warmup {{ inputs {{ key: "x" value {{ data_type: TYPE_FP32 dims: [{}] random_data: true }} }} }}'
    write(repository, f"{ROWS} {{ y = Relu(x) }}", sample.format("3, 4"))
    assert opened(repository).signature.max_batch_size == 0
    write(repository, f"{ROWS} {{ y = Relu(x) }}", sample.format("4"))
    assert opened(repository).signature.max_batch_size == 0, "one row shows nothing"


def test_rows_of_samples_stand_beside_others_as_well(repository: Path) -> None:
    """What a row adds to another one may be less than what kernels differ by from batch to batch."""
    value = 'data_type: TYPE_FP32 dims: [4] input_data_file: "x"'
    sample = f'model_warmup {{ batch_size: 2 inputs {{ key: "x" value {{ {value} }} }} }}'
    (repository / "m" / "warmup").mkdir(parents=True)
    (repository / "m" / "warmup" / "x").write_bytes(np.arange(1, 9, dtype=np.float32).tobytes())
    write(repository, f"{ROWS} {{ y = Relu(x) }}", sample)
    assert opened(repository).signature.max_batch_size == 32
    write(repository, DEPENDENT["faintly"], sample)
    assert opened(repository).signature.max_batch_size == 0


def test_a_sample_may_bring_optional_inputs(repository: Path) -> None:
    def sample(name: str, dims: int, given: int) -> str:
        inputs = "".join(
            f'inputs {{ key: "{key}" value {{ data_type: TYPE_FP32 dims: [{size}] random_data: true }} }} '
            for key, size in (("x", 2), (name, dims))[:given]
        )
        return f"max_batch_size: 4 model_warmup {{ batch_size: 3 {inputs} }}"

    for config in (sample("w", 2, 2), sample("w", 2, 1)):
        write(repository, OVERRIDABLE, config)
        model = opened(repository)
        assert model.findings.warm_up.startswith("batches of 1, 2, 4 rows of the samples of config.pbtxt ran")
        assert model.findings.doubts == ()
    for config, fault in ((sample("w", 3, 2), "input 'w' has dims"), (sample("v", 2, 2), "has inputs v, x")):
        write(repository, OVERRIDABLE, config)
        with pytest.raises(ModelConfigError, match=fault):
            opened(repository)


def spec(name: str, axis: str, shape: tuple[int, ...] = (-1, 4)) -> TensorSpec:
    return TensorSpec(name=name, datatype="FP32", shape=shape, axes=(axis,))


@pytest.mark.parametrize(
    ("axes", "fault"),
    [
        (("batch", "batch"), None),
        (("batch", ""), None),
        (("", ""), None),
        (("unk__616", "unk__617"), None),
        (("DynamicDimension.0", "DynamicDimension.1"), None),
        (("batch", "Gemmy_dim_0"), None),
        (("n", "m"), "'n' in input 'x' and 'm' in output 'y'"),
        (("s0", "s1"), "'s0' in input 'x' and 's1' in output 'y'"),
    ],
)
def test_names_of_first_dimensions_have_to_agree(axes: tuple[str, str], fault: str | None) -> None:
    found = obstacle([spec("x", axes[0])], [spec("y", axes[1])])
    assert found is None if fault is None else found is not None and fault in found

"""Models whose rows depend on each other, and some whose rows do not, in ONNX's text form.

Shapes: N rows of a request (L, n, num_q … in the models that name them so); the first dimension of each input is open.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
import onnx.parser

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Inputs = Callable[[Generator, int], Mapping[str, Array]]

_HEADER: Final = '<ir_version: 10, opset_import: ["" : 20]>'
_ROWS: Final = "float[N,4] x"


@dataclass(frozen=True, kw_only=True)
class Example:
    """One model.

    Attributes:
        graph: inputs, outputs and nodes in ONNX's text form.
        inputs: draws the inputs of a request from a generator and a number of rows.
        independent: each row of an answer depends on its own row alone, so that requests may be joined.
    """

    graph: str
    inputs: Inputs
    independent: bool = False

    def model(self) -> bytes:
        """Build the ONNX file."""
        return bytes(onnx.parser.parse_model(f"{_HEADER} m {self.graph}").SerializeToString())


def _rows(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.standard_normal((rows, 4), np.float32)}


def _vector(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.standard_normal(rows, np.float32)}


def _even_rows(random: Generator, rows: int) -> Mapping[str, Array]:
    return _rows(random, 2 * rows)


def _two_lengths(random: Generator, rows: int) -> Mapping[str, Array]:
    keys = random.standard_normal((int(random.integers(1, 5)), 4), np.float32)
    return {"queries": random.standard_normal((rows, 4), np.float32), "keys": keys}


def _matrix(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.standard_normal((rows, int(random.integers(1, 5))), np.float32)}


def _whole(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.integers(0, 3, (rows, 2), np.int64)}


def _some_large(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.standard_normal((rows, 4), np.float32) * np.float32(random.choice([1, 1000]))}


def _row_numbers(random: Generator, rows: int) -> Mapping[str, Array]:
    return {**_rows(random, rows), "index": random.integers(0, rows, rows, np.int64)}


def _boxes(random: Generator, rows: int) -> Mapping[str, Array]:
    corner = random.random((rows, 2), np.float32)
    scores = random.random(rows, np.float32)
    return {"boxes": np.concatenate([corner, corner + np.float32(0.5)], axis=1), "scores": scores}


def _numbers(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.integers(0, 5, rows, np.int64)}


def _pixels(random: Generator, rows: int) -> Mapping[str, Array]:
    return {"x": random.random((rows, 4), np.float32) * np.float32(random.choice([1, 255]))}


def _masked(random: Generator, rows: int) -> Mapping[str, Array]:
    return {**_rows(random, rows), "mask": random.random(rows) < 0.3}


def _mixing(body: str, *, output: str = "float[N,4] y", inputs: Inputs = _rows, takes: str = _ROWS) -> Example:
    return Example(graph=f"({takes}) => ({output}) {{ {body} }}", inputs=inputs)


def _independent(body: str) -> Example:
    return Example(graph=f"({_ROWS}) => (float[N,4] y) {{ {body} }}", inputs=_rows, independent=True)


_FIRST: Final = "zero = Constant<value = int64[1] {0}>()"
_MEAN: Final = f"{_FIRST} mean = ReduceMean<keepdims = 1>(x, zero)"
_CENTRED_IF: Final = """
    then = Sub(x, mean)
    y = Where(condition, then, x)
"""

EXAMPLES: Final[Mapping[str, Example]] = {
    "cumsum": _mixing(
        "zero = Constant<value = int64 {0}>() y = CumSum(x, zero)",
        takes="float[L] x",
        output="float[L] y",
        inputs=_vector,
    ),
    "attention": _mixing(
        "turned = Transpose<perm = [1, 0]>(keys) scores = MatMul(queries, turned) weights = Softmax<axis = 1>(scores) "
        "y = MatMul(weights, keys)",
        takes="float[num_q,4] queries, float[num_k,4] keys",
        output="float[num_q,4] y",
        inputs=_two_lengths,
    ),
    "transpose": _mixing(
        "y = Transpose<perm = [1, 0]>(x)", takes="float[n,m] x", output="float[m,n] y", inputs=_matrix
    ),
    "softmax": _mixing("y = Softmax<axis = 0>(x)"),
    "centred": _mixing(f"{_MEAN} y = Sub(x, mean)"),
    "mean": _mixing(f"{_MEAN} y = Identity(mean)", output="float[M,4] y"),
    "batch_norm": _mixing(
        f"{_MEAN} apart = Sub(x, mean) squares = Mul(apart, apart) variance = ReduceMean<keepdims = 1>(squares, zero) "
        "small = Constant<value = float {0.00001}>() sum = Add(variance, small) spread = Sqrt(sum) "
        "y = Div(apart, spread)"
    ),
    "largest": _mixing("largest = ReduceMax<keepdims = 0>(x) y = Div(x, largest)"),
    "quantized": _mixing(
        "weight = Constant<value = uint8[4, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 7, 6, 5, 4, 3, 2}>() "
        "bytes, scale, point = DynamicQuantizeLinear(x) sums = MatMulInteger(bytes, weight, point) "
        "floats = Cast<to = 1>(sums) y = Mul(floats, scale)"
    ),
    "nonzero": _mixing("where = NonZero(x) y = Transpose<perm = [1, 0]>(where)", output="int64[K,2] y"),
    "unique": _mixing(
        "y = Unique<axis = 0, sorted = 1>(x)", takes="int64[N,2] x", output="int64[K,2] y", inputs=_whole
    ),
    "sorted": _mixing(
        f"{_FIRST} sizes = Shape(x) rows = Gather(sizes, zero) y, order = TopK<axis = 0>(x, rows)",
    ),
    "best": _mixing("y = ArgMax<axis = 0, keepdims = 1>(x)", output="int64[M,4] y"),
    "gram": _mixing("turned = Transpose<perm = [1, 0]>(x) y = MatMul(x, turned)", output="float[N,M] y"),
    "gather": _mixing("y = Gather<axis = 0>(x, index)", takes=f"{_ROWS}, int64[N] index", inputs=_row_numbers),
    "repeated": _mixing("y = Concat<axis = 0>(x, x)", output="float[M,4] y"),
    "pairs": _mixing(
        "shape = Constant<value = int64[2] {-1, 8}>() y = Reshape(x, shape)",
        output="float[M,8] y",
        inputs=_even_rows,
    ),
    "scan": _mixing(
        "start = Constant<value = float[4] {0, 0, 0, 0}>() "
        "last, y = Scan<num_scan_inputs = 1, body = step (float[4] state, float[4] row) => "
        "(float[4] next, float[4] answer) { half = Constant<value = float {0.5}>() less = Mul(state, half) "
        "next = Add(less, row) answer = Identity(next) }>(start, x)"
    ),
    "previous": _mixing(
        f"{_FIRST} one = Constant<value = int64[1] {{1}}>() first = Slice(x, zero, one) y = Sub(x, first)"
    ),
    "position": _mixing(
        "none = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() sizes = Shape(x) "
        "rows = Gather(sizes, none) numbers = Range(none, rows, one) last = Constant<value = int64[1] {1}>() "
        "column = Unsqueeze(numbers, last) floats = Cast<to = 1>(column) y = Add(x, floats)"
    ),
    "share": _mixing(
        "none = Constant<value = int64 {0}>() sizes = Shape(x) rows = Gather(sizes, none) floats = Cast<to = 1>(rows) "
        "y = Div(x, floats)"
    ),
    "suppression": _mixing(
        "zero = Constant<value = int64[1] {0}>() outer = Constant<value = int64[2] {0, 1}>() "
        "most = Constant<value = int64[1] {100}>() overlap = Constant<value = float[1] {0.3}>() "
        "all = Unsqueeze(boxes, zero) rated = Unsqueeze(scores, outer) "
        "y = NonMaxSuppression(all, rated, most, overlap)",
        takes="float[N,4] boxes, float[N] scores",
        output="int64[K,3] y",
        inputs=_boxes,
    ),
    "large_values": _mixing(
        f"{_MEAN} limit = Constant<value = float {{100}}>() largest = ReduceMax<keepdims = 0>(x) "
        f"condition = Greater(largest, limit) {_CENTRED_IF}",
        inputs=_some_large,
    ),
    "many_rows": _mixing(
        f"{_MEAN} none = Constant<value = int64 {{0}}>() sizes = Shape(x) rows = Gather(sizes, none) "
        f"limit = Constant<value = int64 {{6}}>() condition = Greater(rows, limit) {_CENTRED_IF}"
    ),
    "wide": _mixing(
        f"{_MEAN} apart = Sub(x, mean) million = Constant<value = float {{1000000}}>() large = Mul(x, million) "
        "y = Concat<axis = 1>(large, apart)",
        output="float[N,8] y",
    ),
    "faint": _mixing(
        f"{_MEAN} small = Constant<value = float {{0.001}}>() part = Mul(mean, small) sum = Add(x, part) "
        "y = Mul(sum, sum)",
    ),
    "counted": _mixing(
        "column = Constant<value = int64[1] {1}>() one = Unsqueeze(x, column) other = Transpose<perm = [1, 0]>(one) "
        "same = Equal(one, other) numbers = Cast<to = 7>(same) y = ReduceSum<keepdims = 0>(numbers, column)",
        takes="int64[N] x",
        output="int64[N] y",
        inputs=_numbers,
    ),
    "pixels": _mixing(
        "limit = Constant<value = float {1.5}>() bytes = Constant<value = float {255}>() "
        "one = Constant<value = float {1}>() largest = ReduceMax<keepdims = 0>(x) "
        "whole = Greater(largest, limit) scale = Where(whole, bytes, one) y = Div(x, scale)",
        inputs=_pixels,
    ),
    "masked": _mixing(
        f"{_FIRST} weights = Cast<to = 1>(mask) column = Constant<value = int64[1] {{1}}>() "
        "factors = Unsqueeze(weights, column) kept = Mul(x, factors) mean = ReduceMean<keepdims = 1>(kept, zero) "
        "y = Sub(x, mean)",
        takes=f"{_ROWS}, bool[N] mask",
        inputs=_masked,
    ),
    "independent": _independent(
        "weight = Constant<value = float[4, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 7, 6, 5, 4, 3, 2}>() "
        "sums = MatMul(x, weight) y = Relu(sums)"
    ),
    "independent_softmax": _independent("y = Softmax<axis = 1>(x)"),
}
"""Models by name. In `large_values` and `many_rows`, rows mix only for some values or numbers of rows."""

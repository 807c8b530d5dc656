"""Prefixes of names, and joining of small graphs written out."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, parser

from mnexport.graft.joining import joined
from mnexport.graft.prefixing import prefixed


def floats(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def run(model: ModelProto, values: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {session.get_inputs()[0].name: values})[0])


def test_names_that_clash_are_kept_apart() -> None:
    start = '<ir_version: 8, opset_import: ["" : 18]>'
    text = f"{start} g (float[N, 2] x) => (float[N, 2] y) <float c = {{3}}> {{ y = Mul(x, c) }}"
    first, second = parser.parse_model(text), parser.parse_model(text.replace("{3}", "{5}"))
    whole = joined(prefixed(first, "a/", keep_inputs=True), prefixed(second, "b/", keep_outputs=True))
    assert [item.name for item in whole.graph.input] == ["x"]
    assert [item.name for item in whole.graph.output] == ["y"]
    assert len(whole.opset_import) == 1
    assert run(whole, floats([[1, 2]])).tolist() == [[15, 30]]


INNER = """
<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
network (float[N, 2] x) => (float[N, 2] y)
<float two = {2}, float zero = {0}, int64 trips = {3}>
{
    most = ReduceMax<keepdims = 0>(x)
    positive = Greater(most, zero)
    f = If(positive)<
        then_branch = then () => (float[N, 2] a) {
            turns = Identity(two)
            a = Loop(trips, "", x)<body = body (int64 i, bool go, float[N, 2] v) => (bool on, float[N, 2] w) {
                on = Identity(go)
                w = own.Relu(v, turns)
            }>
        },
        else_branch = other () => (float[N, 2] b) { b = Mul(x, two) }
    >
    y = Relu(f)
}
<domain: "own", opset_import: ["" : 18]>
Relu (a, b) => (c) { c = Mul(a, b) }
"""


def test_weights_and_functions_are_found_inside_branches_and_loops() -> None:
    """A function may have the name of an operator; a weight may be taken two graphs further in."""
    model = parser.parse_model(INNER)
    onnx.checker.check_model(model)
    values = floats([[1, 2], [-1, 3]])
    assert run(model, values).tolist() == [[8, 16], [0, 24]]
    renamed = prefixed(model, "network/")
    onnx.checker.check_model(renamed)
    for sign in (1, -1):
        assert run(renamed, sign * values[:1]).tolist() == run(model, sign * values[:1]).tolist()

"""Comparison of served answers with ONNX Runtime alone: what counts as equal, wrong and refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_suite.arrays import difference, plain_value
from onnx_suite.cases import collect
from onnx_suite.outcomes import Outcomes
from onnx_suite.served import Expected, serve

NAN = np.array([np.nan, -0.0], np.float32)


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        ([NAN], [NAN.copy()], None),
        ([NAN], [np.array([np.nan, 0.0], np.float32)], "output 0 has other values"),
        ([np.zeros(2)], [np.zeros((1, 2))], "output 0 has shape [2] in place of [1, 2]"),
        ([np.zeros(2)], [np.zeros(2, np.float32)], "output 0 is float64 in place of float32"),
        ([np.array([b"a"], object)], [np.array(["a"], object)], None),
        ([np.array([b"a"], object)], [np.array(["b"], object)], "output 0 has other strings"),
        ([], [np.zeros(2)], "0 outputs in place of 1"),
    ],
)
def test_only_equal_bits_are_equal(found: list[Any], expected: list[Any], told: str | None) -> None:
    assert difference(found, expected) == told


def test_values_of_the_suite_become_arrays() -> None:
    half = helper.make_tensor("x", TensorProto.BFLOAT16, [2], [1.0, 2.0])
    assert plain_value(half).dtype == ml_dtypes.bfloat16
    assert plain_value(np.array(["a"])).dtype == object
    assert plain_value(np.float32(3)).shape == ()
    assert plain_value([np.float32(3)])[0] == 3
    assert plain_value(None) is None


def test_every_kind_of_case_has_a_model_and_inputs() -> None:
    names = [
        "node-relu",
        "pytorch-converted-ReLU",
        "pytorch-operator-operator_exp",
        "real-shufflenet",
        "simple-single_relu_model",
    ]
    for name in names:
        cases = list(collect(name[:-1] + "?"))
        assert [case.name for case in cases] == [name]
        assert cases[0].model
        assert all(isinstance(value, np.ndarray) for values in cases[0].data_sets for value in values)
        assert cases[0].data_sets


def test_wrong_and_refused_models_are_told_apart(tmp_path: Path) -> None:
    case = next(collect("node-neg"))
    sent = [{"x": case.data_sets[0][0]}]

    def model(name: str, answers: np.ndarray[Any, Any], file: bytes = case.model) -> Expected:
        return Expected(name=name, model=file, inputs=sent, outputs=["y"], answers=[[answers]])

    done: list[str] = []
    right = -sent[0]["x"]
    models = [model("right", right), model("other", right + 1), model("damaged", right, b"no model")]
    found = serve(tmp_path, models, [], done.append)
    assert sorted(done) == ["damaged", "other", "right"]
    assert {name: one.outcome for name, one in found.items()} == {
        "right": "equal",
        "other": "wrong",
        "damaged": "refused",
    }
    assert found["other"].reason == "output 0 has other values"
    outcomes = Outcomes(suite=3, models={name: (one.outcome, one.reason) for name, one in found.items()})
    assert [outcomes.count(outcome) for outcome in ("equal", "wrong", "refused")] == [1, 1, 1]
    assert list(outcomes.groups("wrong")) == ["output # has other values"]


def test_the_script_counts_and_records(run_script: Callable[..., Any], tmp_path: Path) -> None:
    words = ["--only", "node-identity*", "gone*", "--json", tmp_path / "suite.json"]
    done = run_script("onnx_backend", *words, "--expect", "2")
    assert (done.code, done.stderr.strip()) == (1, "onnx_backend: 1 equal, expected 2")
    record = json.loads((tmp_path / "suite.json").read_text())
    assert (record["suite"], record["run"], record["counts"]["equal"]) == (3, 3, 1)
    assert record["models"]["node-identity_sequence"]["outcome"] == "no type"
    assert run_script("onnx_backend", "--only", "gone*").code == 1


SLICE = """
ai_onnx_ml_label_encoder_string_int ai_onnx_ml_tree_ensemble_set_membership argmax_keepdims_example
attention_4d_softcap_neginf_mask matmulinteger castlike_FLOAT_to_BFLOAT16 cast_FLOAT_to_FLOAT16
center_crop_pad_crop clip_default_inbounds compress_0 constant constantofshape_int_zeros cumsum_1d div_uint8
dropout_default_mask dynamicquantizelinear equal_string gather_elements_0 gridsample if isnan isinf_float16
layer_normalization_2d_axis0 loop11 lstm_with_initial_bias maxunpool_export_with_output_shape mod_mixed_sign_int32
nonmaxsuppression_two_classes nonzero_example onehot_with_axis qlinearmatmul_2D_uint8_float32
range_bfloat16_type_positive_delta reduce_sum_empty_axes_input_noop reduce_max_empty_set reshape_negative_dim
resize_upsample_sizes_nearest reversesequence_time scan9_sum slice_end_out_of_bounds split_zero_size_splits_opset13
strnormalizer_export_monday_casesensintive_nochangecase string_split_basic tfidfvectorizer_tf_onlybigrams_skip5
tile_precomputed top_k_smallest triu_zero unique_sorted_without_axis where_long_example
"""
"""Operators of many kinds: with sizes, axes or indices as inputs, with answers of another shape for other values, with
strings, halves and optional inputs, NaN, infinity and nothing at all."""


def test_operators_of_every_kind_are_served_bit_equal(run_script: Callable[..., Any]) -> None:
    graphs = [
        "simple-shrink",
        "simple-sequence_model7",
        "pytorch-converted-Conv2d_groups",
        "pytorch-operator-operator_maxpool",
    ]
    names = [*(f"node-{name}" for name in SLICE.split()), *graphs]
    done = run_script("onnx_backend", "--only", *names, "--expect", len(names))
    assert (done.code, done.stderr.strip()) == (0, ""), done.stdout

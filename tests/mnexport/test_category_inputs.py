"""Rows with categories and missing values: strings go into the ONNX file, and codes into what is traced."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from google.protobuf import text_format
from torch import Tensor, nn
from tritonclient.grpc import model_config_pb2

from mnexport.errors import UsageError
from mnexport.graph import write_core, write_onnx
from mnexport.parity.examples import rows_with_gaps
from mnexport.repository.model_card import ModelCard
from mnexport.signature import ExportSignature, RowInterface, table_signature
from mnexport.tensorrt import check_inputs

COLORS, SHAPES = ("blue", "grün", "red"), ("round",)


class Sums(nn.Module):
    """Stored rows [B, F] → value [B, 1] that tells all columns apart; NaN counts as 0.5."""

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        filled = torch.where(torch.isnan(rows), 0.5, rows)
        factors = 10.0 ** torch.arange(rows.shape[1])
        value = (filled * factors).sum(dim=-1, keepdim=True)
        indices = torch.topk(filled, 1, dim=-1).indices
        return value, indices, value, value, value


def rows_of(numbers: int, categories: dict[str, tuple[str, ...]]) -> ExportSignature:
    columns = (*(f"n{number}" for number in range(numbers)), *categories)
    interface = RowInterface(columns=columns, targets=("y",), categories=categories, takes_nan=True)
    return table_signature(interface, explain=1)


def written(signature: ExportSignature, path: Path) -> onnxruntime.InferenceSession:
    write_onnx(Sums().eval(), signature, 18, {}, path)
    return onnxruntime.InferenceSession(str(path))


def strings(rows: Sequence[Sequence[str]]) -> np.ndarray:
    return np.array(rows, dtype=object)


def test_strings_become_codes_and_unknown_ones_less_than_any(tmp_path: Path) -> None:
    session = written(rows_of(2, {"color": COLORS, "shape": SHAPES}), tmp_path / "m.onnx")
    assert [(item.name, item.type, item.shape) for item in session.get_inputs()] == [
        ("row", "tensor(float)", ["batch", 2]),
        ("categories", "tensor(string)", ["batch", 2]),
    ]
    numbers = np.array([[1, 2], [np.nan, 3], [4, 5]], np.float32)
    texts = strings([("grün", "round"), ("", "ROUND"), ("red", "")])
    expected = [1 + 20 + 100, 0.5 + 30 - 100 - 1000, 4 + 50 + 200 - 1000]
    for rows in ([0], [1], [2], [0, 1, 2], [2, 0, 1, 0]):
        (value,) = session.run(["value"], {"row": numbers[rows], "categories": texts[rows]})
        np.testing.assert_allclose(value[:, 0], np.array(expected)[rows])
    (value,) = session.run(["value"], {"row": numbers[:0], "categories": texts[:0]})
    assert value.shape == (0, 1)


def test_a_table_of_categories_alone_has_no_numbers_to_send(tmp_path: Path) -> None:
    session = written(rows_of(0, {"color": COLORS}), tmp_path / "m.onnx")
    assert [item.name for item in session.get_inputs()] == ["categories"]
    (value,) = session.run(["value"], {"categories": strings([["red"], ["black"]])})
    assert value[:, 0].tolist() == [2, -1]


def test_the_part_without_explanation_takes_the_same_inputs(tmp_path: Path) -> None:
    signature = rows_of(1, {"color": COLORS})
    written(signature, tmp_path / "m.onnx")
    write_core(tmp_path / "m.onnx", signature, tmp_path / "core.onnx")
    core = onnx.load(tmp_path / "core.onnx")
    assert [item.name for item in core.graph.input] == ["row", "categories"]
    assert [item.name for item in core.graph.output] == ["value"]
    session = onnxruntime.InferenceSession(str(tmp_path / "core.onnx"))
    feeds = {"row": np.array([[3]], np.float32), "categories": strings([["red"]])}
    assert session.run(["value"], feeds)[0].item() == 23


def test_stored_rows_are_sent_as_a_client_has_them() -> None:
    signature = rows_of(2, {"color": (*COLORS, "unknown"), "shape": SHAPES})
    stored = np.array([[1, np.nan, 2, -1], [2, 3, -1, -1], [4, 5, -1, 0]], np.float32)
    feeds = signature.feeds(stored)
    np.testing.assert_array_equal(feeds["row"], stored[:, :2])
    assert feeds["categories"].tolist() == [["red", "unknown"], ["unknown_", ""], ["", "round"]]


def test_every_column_lacks_its_value_once() -> None:
    signature = rows_of(2, {"color": COLORS})
    gaps = rows_with_gaps(np.ones((2, 3), np.float32), signature)
    assert gaps is not None
    np.testing.assert_array_equal(gaps, [[np.nan, 1, 1], [1, np.nan, 1], [1, 1, -1], [np.nan, np.nan, -1]])
    many = rows_of(100, {"color": COLORS})
    gaps = rows_with_gaps(np.ones((5, 101), np.float32), many)
    assert gaps is not None
    assert len(gaps) == 32
    assert (np.isnan(gaps) | (gaps == -1))[:-1].sum(axis=0).tolist() == [1] * 101
    plain = table_signature(RowInterface(columns=("a",), targets=("y",)))
    assert rows_with_gaps(np.ones((5, 1), np.float32), plain) is None


def test_config_pbtxt_says_how_rows_are_laid_out() -> None:
    signature = rows_of(1, {"color": COLORS})
    text = ModelCard(signature=signature, max_batch_size=8, family="vanilla", form="vanilla").config_pbtxt("m")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert [(item.name, item.data_type, list(item.dims)) for item in config.input] == [
        ("row", model_config_pb2.TYPE_FP32, [1]),
        ("categories", model_config_pb2.TYPE_STRING, [1]),
    ]
    assert config.parameters["allow_nan"].string_value == "true"
    assert json.loads(config.parameters["mn.input"].string_value) == {
        "layout": "rows", "columns": ["n0", "color"], "categories": {"color": list(COLORS)}, "target": "y",
    }  # fmt: skip


def test_several_targets_have_values_of_their_own() -> None:
    signature = table_signature(RowInterface(columns=("a",), targets=("y", "z")), explain=3)
    shapes = {output.name: output.shape for output in signature.outputs}
    assert shapes["value"] == shapes["unadapted_value"] == (2,)
    assert shapes["neighbor_values"] == (3, 2)
    assert signature.description["targets"] == ["y", "z"]


def test_an_engine_of_tensorrt_takes_no_strings() -> None:
    with pytest.raises(UsageError, match="take no strings"):
        check_inputs(rows_of(1, {"color": COLORS}), "tensorrt-rtx")
    check_inputs(rows_of(1, {}), "tensorrt-rtx")


def test_values_of_very_many_categories_are_left_out_of_the_description() -> None:
    values = tuple(f"{number:030}" for number in range(10_000))
    signature = rows_of(1, {"color": COLORS, "street": values})
    assert signature.description["categories"] == {"color": list(COLORS), "street": []}
    assert signature.vocabularies == (COLORS, values)

"""Keys in 8 bits: errors of rounding alone, and one product of whole numbers in ONNX."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from mnexport.forms.low_rank.integer_keys import IntegerKeys, integer_keys, integer_products, onnx_translations
from mnexport.graph import write_onnx
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.layers.attention import unit


def rows(count: int, features: int, seed: int) -> Tensor:
    return unit(torch.randn(count, features, generator=torch.Generator().manual_seed(seed)))


def test_keys_are_whole_numbers_times_a_step_of_their_own() -> None:
    keys = rows(50, 16, 0) * torch.logspace(-6, 0, 50).unsqueeze(1)
    found = integer_keys(keys)
    assert found.codes.dtype == torch.int8
    assert int(found.codes.abs().max()) == 127
    torch.testing.assert_close(found.steps, keys.abs().amax(dim=1) / 127)
    errors = (found.codes.mT * found.steps.unsqueeze(1) - keys).abs() / found.steps.unsqueeze(1)
    # Rounded to the nearest, give or take what other features of the key had to give away.
    assert errors.max() < 2
    assert errors.mean() < 0.5


def test_products_err_less_than_with_every_number_rounded_to_the_nearest() -> None:
    """Keys and queries along few of the directions, as features are."""
    mixing = torch.randn(8, 64, generator=torch.Generator().manual_seed(5))
    keys, queries = (unit(rows(count, 8, seed) @ mixing).double() for count, seed in ((300, 0), (100, 1)))
    steps = keys.abs().amax(dim=1, keepdim=True) / 127
    nearest = queries @ ((keys / steps).round() * steps - keys).mT
    found = integer_keys(keys)
    errors = queries @ (found.codes.mT * found.steps.unsqueeze(1) - keys).mT
    assert errors.std() < nearest.std() / 4


def test_a_feature_that_no_key_has_and_keys_that_are_all_alike_can_be_rounded() -> None:
    alike = torch.cat([rows(1, 5, 0).expand(7, 5), torch.zeros(7, 2)], dim=1)
    found = integer_keys(alike)
    assert ((found.codes.mT * found.steps.unsqueeze(1) - alike).abs() <= 2 * found.steps.unsqueeze(1)).all()
    assert not found.codes[5:].any()
    assert not integer_keys(torch.zeros(3, 4)).codes.any()


def test_a_key_of_zeros_stays_one() -> None:
    found = integer_keys(torch.cat([torch.zeros(1, 4), rows(1, 4, 0)]))
    assert integer_products(rows(3, 4, 1), found)[:, 0].abs().max() == 0


@pytest.mark.parametrize("features", [3, 64, 256])
def test_the_query_keeps_fifteen_bits(features: int) -> None:
    query, found = rows(20, features, 1).double(), integer_keys(rows(100, features, 0).double())
    exact = query @ (found.codes * found.steps)
    error = (integer_products(query, found) - exact).abs().max()
    assert error <= np.sqrt(features) / (2 * 127 * 254)


@pytest.mark.parametrize("extreme", [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.6, -0.8]])
def test_extreme_queries_do_not_overflow(extreme: list[float]) -> None:
    query, found = torch.tensor([extreme]), integer_keys(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    torch.testing.assert_close(
        integer_products(query, found), query @ torch.tensor([[1.0, 0.0], [0.0, -1.0]]), atol=2e-5, rtol=0
    )


def test_onnx_runtime_computes_the_same_numbers(tmp_path: Path) -> None:
    found = integer_keys(rows(70, 24, 0))

    class Products(nn.Module):
        codes: Tensor
        steps: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("codes", found.codes)
            self.register_buffer("steps", found.steps)

        def forward(self, query: Tensor) -> tuple[Tensor]:
            return (integer_products(query, IntegerKeys(self.codes, self.steps)),)

    signature = ExportSignature(
        inputs=(ExportTensor(name="query", datatype="FP32", shape=(24,)),),
        input_type="float32",
        outputs=(ExportTensor(name="products", datatype="FP32", shape=(70,)),),
        labels=None,
        description={},
    )
    write_onnx(Products().eval(), signature, 20, {}, tmp_path / "m.onnx", onnx_translations())
    operators = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert operators.count("MatMulInteger") == 1
    assert "MatMul" not in operators
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for batch in (0, 1, 2, 9):
        query = rows(9, 24, 2)[:batch]
        answer = session.run(None, {"query": query.numpy()})[0]
        np.testing.assert_allclose(answer, integer_products(query, found).numpy(), atol=1e-7, rtol=0)

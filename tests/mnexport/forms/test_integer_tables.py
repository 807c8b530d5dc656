"""Tables in 8 bits: errors of rounding alone, one product in ONNX, and a place in a head where they are near enough."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from mnexport.forms.low_rank import norm_choice
from mnexport.forms.low_rank.choice import low_rank
from mnexport.forms.low_rank.integer_tables import (
    BLOCKS,
    IntegerTable,
    integer_table,
    onnx_translations,
    table_products,
)
from mnexport.forms.low_rank.queries import RankLimits
from mnexport.forms.low_rank.rank import RankRule
from mnexport.forms.meta_neighborhoods import AdaptiveHead
from mnexport.graph import write_onnx
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

ENTRIES, COLUMNS = 70, 9
Build = Callable[..., MetaNeighborhoods]
Queries = Callable[..., Tensor]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def attention(rows: int) -> Tensor:
    return numbers(rows, ENTRIES, seed=1).softmax(dim=-1)


def unrounded(table: IntegerTable) -> Tensor:
    """Numbers [N, entries, filled up] of a table."""
    return ((table.codes.float() - 128) * table.steps.unsqueeze(-1)).flatten(1)


def test_a_large_number_costs_its_block_alone_the_small_ones() -> None:
    table = 1e-3 * numbers(ENTRIES, COLUMNS)
    table[0, 2] = 1.0
    error = (unrounded(integer_table(table, 32))[:, :ENTRIES].mT - table).abs()
    assert error[:32, 2].max() > 3e-4, "most of the block is lost"
    error[:32, 2] = 0
    assert error.max() < 2e-5


def test_a_block_of_zeros_stays_one() -> None:
    table = numbers(ENTRIES, COLUMNS)
    table[32:64] = 0
    assert not unrounded(integer_table(table, 32))[:, 32:64].any()
    assert not table_products(torch.zeros(2, ENTRIES), integer_table(table, 32)).any()


@pytest.mark.parametrize("block", [min(BLOCKS), max(BLOCKS)])
def test_onnx_runtime_computes_the_same_numbers(tmp_path: Path, block: int) -> None:
    table = numbers(ENTRIES, COLUMNS)
    found = integer_table(table, block)

    class Products(nn.Module):
        codes: Tensor
        steps: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("codes", found.codes)
            self.register_buffer("steps", found.steps)

        def forward(self, weights: Tensor) -> tuple[Tensor]:
            return (table_products(weights, IntegerTable(self.codes, self.steps)),)

    signature = ExportSignature(
        inputs=(ExportTensor(name="weights", datatype="FP32", shape=(ENTRIES,)),),
        input_type="float32",
        outputs=(ExportTensor(name="products", datatype="FP32", shape=(COLUMNS,)),),
        labels=None,
        description={},
    )
    write_onnx(Products().eval(), signature, 20, {}, tmp_path / "m.onnx", onnx_translations())
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["MatMulNBits"]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for batch in (0, 1, 2, 9):
        left = attention(9)[:batch]
        answer = session.run(None, {"weights": left.numpy()})[0]
        np.testing.assert_allclose(answer, table_products(left, found).numpy(), atol=1e-6, rtol=0)
        np.testing.assert_allclose(answer, (left @ table).numpy(), atol=1e-2, rtol=0)


@pytest.mark.parametrize(("wide", "tolerance", "rounded"), [(4, 0.3, True), (5, 0.3, False), (4, 1e-3, False)])
def test_wide_tables_are_in_8_bits_where_that_keeps_the_tolerance(
    build: Build, queries: Queries, monkeypatch: pytest.MonkeyPatch, wide: int, tolerance: float, rounded: bool
) -> None:
    monkeypatch.setattr(norm_choice, "WIDE", wide)
    model, held_out = build(), queries(40, 2)
    limits = RankLimits(RankRule(tolerance=tolerance), 2**20)
    found = low_rank(model, queries(40), held_out, limits)
    assert found is not None
    assert found.integer is not None
    assert found.integer.integer_tables is rounded
    exact = AdaptiveHead(model, "explicit")(held_out).softmax(-1)
    error = float((found.integer.head(held_out).softmax(-1) - exact).abs().max())
    assert error == pytest.approx(found.integer.held_out_error, abs=1e-5)
    assert error <= limits.rank.limit

"""Recorded cost of an approximation, against the tables that its exported graph reads."""

from collections.abc import Callable
from math import prod
from pathlib import Path

import onnx
import pytest
from torch import Tensor, nn

from mnexport.forms.cost import HeadSize
from mnexport.forms.low_rank.choice import low_rank
from mnexport.forms.low_rank.queries import RankLimits
from mnexport.forms.low_rank.rank import RankRule
from mnexport.graph import write_onnx
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

ENTRIES, CLASSES, FEATURES, RANK = 61, 4, 12, 8
SIGNATURE = ExportSignature(
    inputs=(ExportTensor(name="features", datatype="FP32", shape=(FEATURES,)),),
    input_type="float32",
    outputs=(ExportTensor(name="logits", datatype="FP32", shape=(CLASSES,)),),
    labels=None,
    description={},
)


class Traced(nn.Module):
    """Head as a graph of its own."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor) -> tuple[Tensor]:
        return (self.head(features),)


def numbers_of(head: nn.Module, file: Path) -> int:
    """Constants with an axis of S entries in the exported graph of a head."""
    write_onnx(Traced(head).eval(), SIGNATURE, 20, {}, file)
    return sum(prod(item.dims) for item in onnx.load(file).graph.initializer if ENTRIES in item.dims)


@pytest.mark.parametrize("steps", [1, 2], ids=["norm", "subspace"])
def test_the_tables_of_an_approximation_are_those_of_its_graph(
    build: Callable[..., MetaNeighborhoods], queries: Callable[..., Tensor], steps: int, tmp_path: Path
) -> None:
    model = build(entries=ENTRIES, steps=steps)
    found = low_rank(model, queries(20), queries(20, 2), RankLimits(RankRule(tolerance=0.99, given=RANK), 2**20))
    assert found is not None
    size = HeadSize(entries=ENTRIES, classes=CLASSES, features=FEATURES, steps=steps)
    cost = size.norm(RANK) if found.kind == "norm" else size.subspace(RANK)
    assert cost.table_numbers == numbers_of(found.head, tmp_path / "m.onnx")
    assert cost.table_bytes == 4 * cost.table_numbers


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_every_direction_is_read_and_multiplied(steps: int) -> None:
    """One more direction costs one more column of every table that has directions, in every pass over it."""
    size = HeadSize(entries=ENTRIES, classes=CLASSES, features=FEATURES, steps=steps)
    forms = [(size.subspace, 2 * steps - 1, 1 if steps == 1 else 3), *([(size.norm, 1, 1)] if steps == 1 else [])]
    for form, passes, tables in forms:
        more, less = form(RANK + 1), form(RANK)
        assert more.multiplications - less.multiplications == passes * ENTRIES
        assert more.table_numbers - less.table_numbers == tables * ENTRIES
        assert less.weight == less.multiplications + 10 / 8 * less.table_numbers
        assert less.weight < size.exact().weight


def test_keys_of_the_attention_alone_are_read_too() -> None:
    shared, apart = (
        HeadSize(entries=ENTRIES, classes=CLASSES, features=FEATURES, shared_keys=keys) for keys in (True, False)
    )
    assert apart.norm(RANK).table_numbers - shared.norm(RANK).table_numbers == ENTRIES * FEATURES
    assert apart.subspace(RANK) == shared.subspace(RANK), "the classifier reads no keys, but products with them"

"""Cut tables of a perceptron: exact with all directions, and cheaper in the right order with fewer."""

import itertools

import pytest
import torch

from mnexport.forms.low_rank.tables import LastTable, cut_tables, cut_values, factored_tables
from mntrain.models.meta_neighborhoods.inner_mlp import LayerTable, adapted_values, layer_tables

WIDTHS = (3, 8, 8, 1)
WIDE = (3, 20, 20, 1)


def setting(widths: tuple[int, ...] = WIDTHS) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    layers = tuple((draw(after, before), draw(after)) for before, after in itertools.pairwise(widths))
    tables = [LayerTable(item.inputs, 0.01 * item.errors) for item in layer_tables(draw(40, 3), draw(40), layers)]
    queries, weights = draw(30, 3), draw(30, 40).softmax(-1)
    return queries, weights, layers, tables  # type: ignore[return-value]


@pytest.mark.parametrize("widths", [WIDTHS, WIDE])
def test_all_directions_are_exact_and_errors_fall_with_the_rank(widths: tuple[int, ...]) -> None:
    queries, weights, layers, tables = setting(widths)
    exact = adapted_values(queries, weights, layers, tables, torch.ones((), dtype=torch.float64))
    factors = factored_tables(queries, weights, layers, tables)
    full = sum(len(side.strengths) for layer in factors for side in layer)

    errors = [
        float((cut_values(queries, weights, layers, cut_tables(factors, rank)) - exact).abs().max())
        for rank in (1, full // 2, full)
    ]

    # Wide layers that lose nothing keep their tables whole.
    assert any(table.hidden is None for table in cut_tables(factors, full)) == (widths == WIDE)
    assert errors[2] < 1e-9
    assert errors[2] < errors[1] < errors[0]


def test_the_strongest_directions_of_all_layers_are_kept() -> None:
    queries, weights, layers, tables = setting()
    factors = factored_tables(queries, weights, layers, tables)
    strengths = torch.cat([side.strengths for layer in factors for side in layer]).sort(descending=True).values
    cut = cut_tables(factors, 9)
    *inner, last = cut
    assert isinstance(last, LastTable)
    kept = [rank for layer in inner for rank in (len(layer.inputs) - 1, layer.errors.shape[1])]
    kept += [last.products.shape[1] - 1, 1]
    wanted = [max(1, int((side.strengths >= strengths[8]).sum())) for layer in factors for side in layer]
    assert kept == wanted
    assert sum(wanted) < 9 + len(wanted)

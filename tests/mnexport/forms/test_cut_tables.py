"""Cut tables of a perceptron: exact with all directions, and cheaper in the right order with fewer."""

import itertools

import pytest
import torch

from mnexport.forms.low_rank.tables import (
    LastTable,
    cut_tables,
    cut_values,
    factored_tables,
    full_rank,
    max_directions,
)
from mntrain.models.meta_neighborhoods.inner_mlp import LayerTable, adapted_values, layer_tables

WIDTHS = (3, 8, 8, 1)
WIDE = (3, 20, 20, 1)
SEVERAL = (3, 8, 8, 3)


def setting(widths: tuple[int, ...] = WIDTHS) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    layers = tuple((draw(after, before), draw(after)) for before, after in itertools.pairwise(widths))
    keys, values = draw(40, 3), draw(*(40, widths[-1])[: 1 + (widths[-1] > 1)])
    tables = [LayerTable(item.inputs, 0.01 * item.errors) for item in layer_tables(keys, values, layers)]
    queries, weights = draw(30, 3), draw(30, 40).softmax(-1)
    return queries, weights, layers, tables  # type: ignore[return-value]


@pytest.mark.parametrize("widths", [WIDTHS, WIDE, SEVERAL])
def test_all_directions_are_exact_and_errors_fall_with_the_rank(widths: tuple[int, ...]) -> None:
    queries, weights, layers, tables = setting(widths)
    exact = adapted_values(queries, weights, layers, tables, torch.ones((), dtype=torch.float64))
    factors = factored_tables(queries, weights, layers, tables)
    full = full_rank(factors)

    errors = [
        float((cut_values(queries, weights, layers, cut_tables(factors, rank)) - exact).abs().max())
        for rank in (1, full // 2, full)
    ]

    # Wide layers that lose nothing keep their tables whole.
    assert any(table.hidden is None for table in cut_tables(factors, full)) == (widths == WIDE)
    assert exact.shape == ((30,) if widths[-1] == 1 else (30, widths[-1]))
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


@pytest.mark.parametrize("unseen", ["entries", "hidden units", "outputs"])
def test_tables_without_influence_on_the_answer_take_no_direction(unseen: str) -> None:
    """Entries that nobody attends to, units that are always off, outputs that the next layer does not read."""
    queries, weights, layers, tables = setting()
    spoilt = [LayerTable(item.inputs.clone(), item.errors.clone()) for item in tables]
    noise = torch.randn(40, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    if unseen == "entries":
        weights[:, 20:] = 0
        spoilt[1].inputs[20:] = 30 * noise[20:]
        spoilt[1].errors[20:] = noise[20:]
    elif unseen == "hidden units":
        layers[0][0][:4], layers[0][1][:4] = 0, -1.0
        tables[0].errors[:, :4] = 0
        spoilt[0].errors[:, :4] = 0
        spoilt[1].inputs[:, :4] = 30 * noise[:, :4]
    else:
        layers[1][0][:, :4] = 0
        spoilt[0].errors[:, :4] = noise[:, :4]
        tables[1].inputs[:, :4] = 0
        spoilt[1].inputs[:, :4] = 0
    one = torch.ones((), dtype=torch.float64)
    exact = adapted_values(queries, weights, layers, spoilt, one)
    torch.testing.assert_close(adapted_values(queries, weights, layers, tables, one), exact, atol=1e-12, rtol=0)

    plain, found = (factored_tables(queries, weights, layers, item) for item in (tables, spoilt))

    for rank in (8, 16, 24):
        errors = [
            float((cut_values(queries, weights, layers, cut_tables(item, rank)) - exact).abs().max())
            for item in (plain, found)
        ]
        assert errors[1] <= 3 * errors[0] + 1e-4


@pytest.mark.parametrize("widths", [WIDTHS, WIDE])
def test_the_most_directions_are_all_that_tables_of_so_many_columns_hold(widths: tuple[int, ...]) -> None:
    factors = factored_tables(*setting(widths))

    def widest(rank: int) -> int:
        return max(
            item.numel() // 40
            for table in cut_tables(factors, rank)
            for item in table
            if item is not None and item.numel() % 40 == 0 and 40 in item.shape
        )

    assert max_directions(factors, 1) == 0
    for columns in range(2, max(widths)):
        most = max_directions(factors, columns)
        assert widest(most) <= columns
        if most < full_rank(factors):
            assert widest(most + 1) > columns
    assert max_directions(factors, max(widths) + 1) == full_rank(factors)


def test_directions_matter_as_much_for_the_last_target_as_for_the_first() -> None:
    """The first target hangs on nothing but its bias; turned around, it is the last one that does."""
    queries, weights, layers, tables = setting(SEVERAL)
    last = layers[-1][0]
    last[0] = 0
    tables[-1].errors[:, 0] = 0
    turned = (*layers[:-1], (last.flip(0), layers[-1][1].flip(0)))
    turned_tables = [*tables[:-1], LayerTable(tables[-1].inputs, tables[-1].errors.flip(1))]
    one = torch.ones((), dtype=torch.float64)
    errors = []
    for some_layers, some_tables in ((layers, tables), (turned, turned_tables)):
        factors = factored_tables(queries, weights, some_layers, some_tables)
        exact = adapted_values(queries, weights, some_layers, some_tables, one)
        found = cut_values(queries, weights, some_layers, cut_tables(factors, full_rank(factors) // 2))
        errors.append(float((found - exact).abs().max()))
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)

"""Comparison of made-up records: units that are shared, and classifiers that several heads are compared with."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_rel

from mntrain.analysis.heads.sweeps import sweeps_section
from mntrain.heads.comparison import HeadComparison, HeadScores
from mntrain.heads.comparison_files import comparison_table
from mntrain.heads.record import HeadRecord
from mntrain.heads.tradeoff import curves_of, points_of


def record(
    method: str,
    seed: int,
    few: float | None,
    base: str = "joint",
    store: str = "made up",
    sweep: tuple[float, ...] = (),
) -> HeadRecord:
    """Record of a head; accuracy on all classes is 0.5, and that of the base on classes of few the seed's tenth.

    A sweep over some constants has the constant as accuracy of few.
    """

    def scores(of_few: float | None) -> HeadRecord:
        groups = {"all": 0.5} if of_few is None else {"few": of_few, "all": 0.5}
        return {"test": {group: {"accuracy": value, "top_5": None} for group, value in groups.items()}}

    return {
        "method": method,
        "seed": seed,
        "base": base,
        "store": {"path": store},
        "groups": {"few": 0 if few is None else 3, "medium": 2, "many": 1, "all": 6},
        "scores": scores(few),
        "base_scores": scores(seed / 10),
        "seconds": 1.0,
        "sweeps": [
            {
                "name": "constant",
                "values": list(sweep),
                "chosen": sweep[0],
                "test": [scores(None if few is None else value)["test"] for value in sweep],
                "validation": [scores(None)["test"] for _ in sweep],
            }
        ]
        if sweep
        else [],
    }


def test_a_classifier_that_several_heads_stand_on_counts_once_for_each_unit() -> None:
    """Joint is 0.1 and 0.2 on classes of few, however many heads are compared with it."""
    records = [record(method, seed, 0.4) for method in ("crt", "tau", "lws") for seed in (1, 2)]
    points = {point.method: point for point in points_of(records)}
    assert list(points) == ["crt", "tau", "lws", "joint"]
    assert points["joint"].few == pytest.approx(0.15)
    assert points["joint"].few_std == pytest.approx(0.1 / 2**0.5)


def test_differences_name_the_seeds_that_both_have() -> None:
    records = [record("joint", 1, 0.1), record("joint", 2, 0.2), record("joint", 3, 0.3)]
    records += [record("crt", 2, 0.25), record("crt", 3, None)]
    (row,) = [row for row in HeadComparison.of(records).rows if row.method == "crt"]
    assert row.differences["few"].seeds == (2,)
    assert row.differences["few"].mean == pytest.approx(0.05)
    assert row.differences["all"].seeds == (2, 3)


def crt_row(records: list[HeadRecord]) -> HeadScores:
    """The row of crt, compared with joint."""
    return next(row for row in HeadComparison.of(records).rows if row.method == "crt")


def on_stores(seeds: tuple[int, ...]) -> list[HeadRecord]:
    """Two methods without draws on three stores: every seed has the same scores."""
    scores = {"a": (0.1, 0.3), "b": (0.2, 0.3), "c": (0.3, 0.5)}
    return [
        record(method, seed, scores[store][place], store=store)
        for store in scores
        for seed in seeds
        for place, method in enumerate(("joint", "crt"))
    ]


def test_seeds_of_methods_without_draws_change_no_p_value_and_no_deviation() -> None:
    """A store is one unit, however many seeds its heads have."""
    one, several = (crt_row(on_stores(seeds)) for seeds in ((0,), (0, 1, 2, 3, 4)))
    expected = ttest_rel((0.3, 0.3, 0.5), (0.1, 0.2, 0.3)).pvalue
    assert one.differences["few"].p_value == pytest.approx(expected)
    assert several.differences["few"].p_value == pytest.approx(expected)
    assert several.differences["few"].std == pytest.approx(one.differences["few"].std)
    assert several.differences["few"].units == ("a", "b", "c")
    assert several.accuracy["few"] == one.accuracy["few"] == pytest.approx((0.3, 0.3, 0.5))
    points = [points_of(on_stores(seeds)) for seeds in ((0,), (0, 1, 2, 3, 4))]
    assert points[0] == points[1]


def test_seeds_are_averaged_within_a_store() -> None:
    records = [record("joint", seed, 0.1, store=store) for store in ("a", "b") for seed in (0, 1)]
    records += [
        record("crt", seed, few + seed / 10, store=store) for store, few in (("a", 0.2), ("b", 0.4)) for seed in (0, 1)
    ]
    row = crt_row(records)
    assert row.accuracy["few"] == pytest.approx((0.25, 0.45))
    assert row.differences["few"].p_value == pytest.approx(ttest_rel((0.25, 0.45), (0.1, 0.1)).pvalue)
    caption = comparison_table(HeadComparison.of(records)).caption
    assert "over 2 stores, each of them the mean of 2 seeds" in caption
    assert "store by store; p is that of a two-sided paired t-test over stores" in caption


def test_seeds_of_one_store_are_units_of_which_the_caption_says_what_they_vary() -> None:
    records = [record("joint", seed, 0.1) for seed in (0, 1, 2)] + [record("crt", seed, 0.3) for seed in (0, 1, 2)]
    row = crt_row(records)
    assert (row.differences["few"].std, row.differences["few"].p_value) == (0.0, None)
    assert row.differences["few"].units == tuple(f"made up seed {seed}" for seed in (0, 1, 2))
    caption = comparison_table(HeadComparison.of(records)).caption
    assert "over 3 seeds of one store" in caption
    assert "a method without draws has the deviation 0" in caption


@pytest.mark.parametrize("first", ["with", "without"])
def test_a_store_without_test_rows_of_few_is_left_out_of_points_and_curves(first: str) -> None:
    """Whichever store comes first; the table tells the number of stores of such a cell."""
    few = {"with": 0.4, "without": None}
    stores = sorted(few, key=lambda store: store != first)
    records = [
        record(method, 0, few[store], store=store, sweep=(0.1, 0.2) if method == "bias" else ())
        for store in stores
        for method in ("joint", "bias")
    ]
    (curve,) = curves_of(records)
    assert (curve.few, curve.all) == (pytest.approx((0.1, 0.2)), (0.5, 0.5))
    assert {point.few for point in points_of(records)} == {0.4}
    table = comparison_table(HeadComparison.of(records))
    assert table.rows[0][1:3] == ["40.00% (1 of 2)", "50.00% ± 0.00%"]
    assert "0 to 3 few, 2 medium, 1 many of 6" in table.caption
    section = sweeps_section(HeadComparison.of(records))
    assert section is not None
    assert "10.0 to 20.0" in section.figures[0].alt


def test_grids_of_different_lengths_share_a_curve_over_their_common_values() -> None:
    records = [
        record("bias", 0, 0.4, store="a", sweep=(0.1, 0.2)),
        record("bias", 0, 0.4, store="b", sweep=(0.0, 0.1, 0.2, 0.3)),
    ]
    (curve,) = curves_of(records)
    assert (curve.values, curve.few) == ((0.1, 0.2), pytest.approx((0.1, 0.2)))

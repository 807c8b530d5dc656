"""Comparison of made-up records: units that are shared, and classifiers that several heads are compared with."""

from __future__ import annotations

import pytest

from mntrain.heads.comparison import HeadComparison
from mntrain.heads.record import HeadRecord
from mntrain.heads.tradeoff import points_of


def record(method: str, seed: int, few: float | None, base: str = "joint") -> HeadRecord:
    """Record of a head; accuracy on all classes is 0.5, and that of the base on classes of few the seed's tenth."""

    def scores(of_few: float | None) -> HeadRecord:
        groups = {"all": 0.5} if of_few is None else {"few": of_few, "all": 0.5}
        return {"test": {group: {"accuracy": value, "top_5": None} for group, value in groups.items()}}

    return {
        "method": method,
        "seed": seed,
        "base": base,
        "store": {"path": "made up"},
        "scores": scores(few),
        "base_scores": scores(seed / 10),
        "seconds": 1.0,
        "sweeps": [],
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

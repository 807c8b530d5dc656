"""Correlation of gains with distances: within each store, whose distances have a unit of their own."""

from __future__ import annotations

import pytest

from mntrain.analysis.heads.improvement import class_gains, distance_section
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.record import HeadRecord


def record(store: str, unit: float, shift: float, seed: int = 0) -> HeadRecord:
    """Head whose gains rise with distances of a unit of their own; ``shift`` is added to all gains."""
    places = (1, 2, 3, 4, 5)
    gains = {"a": (1, 2, 3, 5, 4), "b": (1, 3, 2, 4, 5), "c": (2, 1, 5, 3, 4)}[store]
    accuracy = {"all": {"accuracy": 0.5, "top_5": None}}
    return {
        "method": "crt",
        "base": "joint",
        "seed": seed,
        "store": {"path": store},
        "scores": {"test": accuracy},
        "base_scores": {"test": accuracy},
        "seconds": 1.0,
        "sweeps": [],
        "classes": [
            {
                "name": f"class {place}",
                "group": "few",
                "recall": 0.2 + gain / 100 + shift,
                "base_recall": 0.2,
                "distance": unit * place,
            }
            for place, gain in zip(places, gains, strict=True)
        ],
    }


def numbers(*records: HeadRecord) -> dict[str, float | None]:
    section = distance_section(HeadComparison.of(records))
    assert section is not None
    found: dict[str, float | None] = section.numbers["crt"]
    return found


def test_one_store_has_the_p_value_of_its_classes() -> None:
    assert numbers(record("a", 1, 0))["spearman"] == pytest.approx(0.9)
    assert numbers(record("a", 1, 0))["p"] == pytest.approx(0.0374, abs=1e-4)


def test_stores_of_other_units_are_correlated_each_for_itself() -> None:
    """Pooled, the store of large distances and low gains would turn the sign."""
    found = numbers(record("a", 1, 0.3), record("b", 1000, 0), record("c", 1, 0.3))
    assert found["spearman"] == pytest.approx((0.9 + 0.9 + 0.6) / 3)
    assert found["p"] == pytest.approx(0.0153, abs=1e-4)


def test_seeds_of_one_store_are_one_value_of_a_class() -> None:
    once, twice = ([record("a", 1, 0, seed) for seed in range(count)] for count in (1, 3))
    assert numbers(*twice) == pytest.approx(numbers(*once))
    (gains,) = class_gains(HeadComparison.of(twice))
    assert len(gains.gains) == 5

"""The one rule by which every approximation gets its number of directions, and what is told of one that cannot be."""

from typing import Any

import pytest

from mnexport.errors import FormError
from mnexport.forms.low_rank.rank import RankBounds, RankRule, smallest_rank

MEBIBYTE = 2**20


def bounds(**changes: Any) -> RankBounds:
    """For 100 directions, of 60 entries and of tables that hold 80."""
    return RankBounds(**({"full": 100, "held": 80, "table_bytes": MEBIBYTE, "entries": 60} | changes))


@pytest.mark.parametrize("needed", [1, 2, 63, 64, 99, 100])
def test_the_smallest_rank_is_found(needed: int) -> None:
    asked: list[int] = []

    def error(rank: int) -> float:
        asked.append(rank)
        return 1.0 if rank < needed else 0.0

    assert smallest_rank(error, 100, 0.5) == needed
    assert len(asked) < 10
    assert smallest_rank(lambda rank: float("nan"), 100, 0.5) is None
    assert smallest_rank(lambda rank: 0.0, 0, 0.5) is None


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 80),
        ({"full": 50}, 50),
        ({"held": 0}, 0),
        ({"unit": 7}, 77),
        ({"unit": 7, "held": 6}, 0),
        ({"entries": 1}, 80),
    ],
)
def test_a_rank_that_is_chosen_keeps_within_what_there_is_and_what_the_table_holds(
    changes: dict[str, int], most: int
) -> None:
    """Whatever the number of entries: fewer directions than the exact form has are a gain all the same."""
    asked: list[int] = []

    def error(rank: int) -> float:
        asked.append(rank)
        return 0.25 if rank == most else 1.0

    rule = RankRule(tolerance=1.0)
    assert rule.choose(error, bounds(**changes)) == (most or None)
    assert max(asked, default=0) == most
    assert all(rank % changes.get("unit", 1) == 0 for rank in asked)


def test_a_rank_that_is_chosen_leaves_most_of_the_tolerance_and_one_that_is_given_may_take_it_all() -> None:
    assert RankRule(tolerance=1.0).choose(lambda rank: 0.25, bounds()) == 1
    assert RankRule(tolerance=1.0).choose(lambda rank: 0.26, bounds()) is None
    assert RankRule(tolerance=1.0, share=0.5).choose(lambda rank: 0.26, bounds()) == 1
    assert RankRule(tolerance=1.0, given=3).choose(lambda rank: 1.0, bounds()) == 3
    assert RankRule(tolerance=1.0, given=3).choose(lambda rank: 1.01, bounds()) is None
    assert RankRule(tolerance=1.0, given=3).choose(lambda rank: float("nan"), bounds()) is None


@pytest.mark.parametrize(
    ("changes", "most", "limit"),
    [
        ({}, 60, "no more than the 60 entries of its dictionary"),
        ({"entries": 90}, 80, "no more than a table of 1 MiB holds"),
        ({"entries": 90, "table_bytes": 48 * MEBIBYTE}, 80, "no more than a table of 48 MiB holds"),
        ({"full": 50}, 50, "no more than the 50 that leave nothing out"),
        ({"full": 100, "held": 100, "entries": 100}, 100, "no more than the 100 that leave nothing out"),
        ({"unit": 7}, 56, "no more than the 60 entries of its dictionary"),
        ({"unit": 7, "held": 30}, 28, "no more than a table of 1 MiB holds"),
    ],
)
def test_the_highest_rank_that_may_be_given_is_told_with_what_limits_it(
    changes: dict[str, int], most: int, limit: str
) -> None:
    unit = changes.get("unit", 1)
    there = bounds(**changes)
    for given in (unit, most):
        assert RankRule(tolerance=1.0, given=given).choose(lambda rank: 0.0, there) == given
    for given in {0, most + 1, most + unit, 1 if unit > 1 else 0}:
        with pytest.raises(FormError) as caught:
            RankRule(tolerance=1.0, given=given).choose(lambda rank: 0.0, there)
        steps = f" in steps of {unit}, one for each class" if unit > 1 else ""
        assert str(caught.value) == (
            f"--rank is {given}; this model takes {unit} to {most} directions{steps} ({limit}). "
            "Without --rank it gets the fewest that keep the tolerance."
        )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"entries": 3, "unit": 4},
            "--rank is 4; this model takes at least 4 directions, one for each class, but no more than the 3 entries "
            "of its dictionary. Leave out --rank.",
        ),
        (
            {"held": 3, "unit": 4, "table_bytes": MEBIBYTE // 10},
            "--rank is 4; this model takes at least 4 directions, one for each class, but no more than a table of 0.1 "
            "MiB holds. Leave out --rank, and take an exact form (--form auto does).",
        ),
        (
            {"held": 0},
            "--rank is 4; this model takes at least one direction, but no more than a table of 1 MiB holds. Leave out "
            "--rank, and take an exact form (--form auto does).",
        ),
    ],
)
def test_where_no_rank_can_be_given_the_way_out_is_told(changes: dict[str, int], sentence: str) -> None:
    there = bounds(**changes)
    with pytest.raises(FormError) as caught:
        RankRule(tolerance=1.0, given=4).choose(lambda rank: 0.0, there)
    assert str(caught.value) == sentence
    # The way out is one: a rank is found without --rank, or no approximation has room.
    assert (RankRule(tolerance=1.0).choose(lambda rank: 0.0, there) is None) == ("exact form" in sentence)

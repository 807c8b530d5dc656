"""Rule of the rank of every approximation, and the reasons against a rank that is out of bounds."""

from typing import Any

import pytest

from mnexport.errors import FormError
from mnexport.forms.low_rank.rank import RankBounds, RankRule, smallest_rank

MEBIBYTE = 2**20


def bounds(**changes: Any) -> RankBounds:
    """Make bounds of 100 directions, 60 entries and tables that hold 80 directions."""
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
    ("changes", "highest"),
    [
        ({}, 80),
        ({"full": 50}, 50),
        ({"held": 0}, 0),
        ({"unit": 7}, 77),
        ({"unit": 7, "held": 6}, 0),
        ({"entries": 1}, 80),
    ],
)
def test_a_chosen_rank_is_bounded_by_the_full_rank_and_the_table(changes: dict[str, int], highest: int) -> None:
    """The number of entries does not bound it: fewer directions than the exact form has are a gain all the same."""
    asked: list[int] = []

    def error(rank: int) -> float:
        asked.append(rank)
        return 0.25 if rank == highest else 1.0

    rule = RankRule(tolerance=1.0)
    assert rule.choose(error, bounds(**changes)) == (highest or None)
    assert max(asked, default=0) == highest
    assert all(rank % changes.get("unit", 1) == 0 for rank in asked)


def test_a_rank_that_is_chosen_leaves_most_of_the_tolerance_and_one_that_is_given_may_take_it_all() -> None:
    assert RankRule(tolerance=1.0).choose(lambda rank: 0.25, bounds()) == 1
    assert RankRule(tolerance=1.0).choose(lambda rank: 0.26, bounds()) is None
    assert RankRule(tolerance=1.0, share=0.5).choose(lambda rank: 0.26, bounds()) == 1
    assert RankRule(tolerance=1.0, given=3).choose(lambda rank: 1.0, bounds()) == 3
    assert RankRule(tolerance=1.0, given=3).choose(lambda rank: 1.01, bounds()) is None
    assert RankRule(tolerance=1.0, given=3).choose(lambda rank: float("nan"), bounds()) is None


@pytest.mark.parametrize(
    ("changes", "highest", "limit"),
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
    changes: dict[str, int], highest: int, limit: str
) -> None:
    unit = changes.get("unit", 1)
    rank_bounds = bounds(**changes)
    for given in (unit, highest):
        assert RankRule(tolerance=1.0, given=given).choose(lambda rank: 0.0, rank_bounds) == given
    for given in {0, highest + 1, highest + unit, 1 if unit > 1 else 0}:
        with pytest.raises(FormError) as caught:
            RankRule(tolerance=1.0, given=given).choose(lambda rank: 0.0, rank_bounds)
        steps = f" in steps of {unit}, one for each class" if unit > 1 else ""
        assert str(caught.value) == (
            f"--rank is {given}; this model takes {unit} to {highest} directions{steps} ({limit}). "
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
def test_a_rank_without_room_is_refused_with_the_remedy(changes: dict[str, int], sentence: str) -> None:
    rank_bounds = bounds(**changes)
    with pytest.raises(FormError) as caught:
        RankRule(tolerance=1.0, given=4).choose(lambda rank: 0.0, rank_bounds)
    assert str(caught.value) == sentence
    # The way out is one: a rank is found without --rank, or no approximation has room.
    assert (RankRule(tolerance=1.0).choose(lambda rank: 0.0, rank_bounds) is None) == ("exact form" in sentence)

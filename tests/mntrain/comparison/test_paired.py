"""P-values of several tests, corrected for their number."""

import pytest

from mntrain.comparison.paired import holm


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        # By hand: 4 · 0.005; 3 · 0.01; 2 · 0.03; 1 · 0.04 is smaller than the one before it, and takes its value.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.02], [0.02]),
        ([0.6, 0.5], [1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
        # What could not be tested does not count: 2 · 0.01.
        ([None, 0.01, 0.3, None], [None, 0.02, 0.3, None]),
        ([], []),
    ],
)
def test_p_values_are_corrected_for_the_number_of_tests(
    p_values: list[float | None], expected: list[float | None]
) -> None:
    assert holm(p_values) == [None if value is None else pytest.approx(value) for value in expected]

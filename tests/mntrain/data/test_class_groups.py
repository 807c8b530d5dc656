"""Groups of classes by their number of training examples."""

import numpy as np
import pytest

from mntrain.data.class_groups import class_groups
from mntrain.errors import ConfigError


def test_the_borders_are_those_of_the_published_splits() -> None:
    counts = np.array([5000, 101, 100, 20, 19, 1], dtype=np.int64)
    assert class_groups(counts) == ("many", "many", "medium", "medium", "few", "few")


def test_thresholds_of_ones_own() -> None:
    assert class_groups(np.array([9, 5, 1], dtype=np.int64), many=8, few=3) == ("many", "medium", "few")


def test_thresholds_may_leave_no_medium() -> None:
    assert class_groups(np.array([9, 8], dtype=np.int64), many=8, few=9) == ("many", "few")


def test_crossed_thresholds_are_refused() -> None:
    with pytest.raises(ConfigError, match="no class is both"):
        class_groups(np.array([9], dtype=np.int64), many=5, few=20)

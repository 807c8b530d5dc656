"""Groups of classes by their number of training examples: many, medium and few.

Shapes: C classes.
"""

from typing import Literal

from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError

ClassGroup = Literal["many", "medium", "few"]
CLASS_GROUPS: tuple[ClassGroup, ...] = ("many", "medium", "few")
"""The groups in the order of tables, from the largest classes to the smallest."""
MANY = 100
"""A class of more training examples than this is one of many."""
FEW = 20
"""A class of fewer training examples than this is one of few."""


def class_groups(counts: IndexArray, many: int = MANY, few: int = FEW) -> tuple[ClassGroup, ...]:
    """Name the group of each class: above ``many`` examples many, below ``few`` few, else medium.

    The thresholds are those that results on ImageNet-LT and Places-LT are reported with (Liu et al., 2019,
    "Large-Scale Long-Tailed Recognition in an Open World", section 4).

    Args:
        counts: training examples of each class, int64 [C].
        many: largest count that is not yet many.
        few: smallest count that is no longer few.

    Returns:
        C names, in the order of the classes.

    Raises:
        ConfigError: the thresholds cross, so that a class would be of two groups.
    """
    if not 0 <= few <= many + 1:
        raise ConfigError(
            f"Classes of more than {many} examples would be many and of fewer than {few} few; give a smaller number "
            "for few, from 0 on, so that no class is both."
        )
    return tuple("many" if count > many else "few" if count < few else "medium" for count in counts.tolist())

"""Images of one value: black, grey and white ones.

Shapes: examples [N, …] in the type that the graph takes.

Behind ReLU whole positions of their maps are 0, which few real images have: what divides by a norm shows there whether
its guard is still there in fewer bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_blank_images(examples: NDArray[Any]) -> NDArray[Any]:
    """Put three images in front of others, of the smallest and the largest value of these and of the mean of both.

    Args:
        examples: at least one.
    """
    lowest, highest = examples.min(), examples.max()
    middle = lowest + (highest - lowest) / 2
    blank = [np.full_like(examples[:1], value) for value in (lowest, middle, highest)]
    return np.concatenate([*blank, examples])

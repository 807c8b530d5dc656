"""Sizes of the batches of an epoch: what becomes of examples that fill no batch.

N examples, B examples of a full batch.
"""

from typing import Literal

LastBatch = Literal["train", "drop"]
LAST_BATCHES = ("train", "drop")
_SMALLEST = 8
"""Examples of the smallest last batch: statistics and gradient of fewer are mostly noise."""


def batch_sizes(examples: int, batch_size: int, *, last_batch: LastBatch, devices: int = 1) -> tuple[int, ...]:
    """Divide an epoch into batches.

    A set smaller than a batch is one batch. ``drop`` leaves out what fills no batch. ``train`` leaves out nothing: the
    rest is a batch of its own if it has 8 examples, and two for every process; otherwise its examples are spread over
    the full batches, one more in each of the first ones.

    Args:
        examples: N, two for every process at least.
        batch_size: B, a multiple of the devices.
        last_batch: train or drop.
        devices: processes that share every batch.

    Returns:
        Examples of every batch, in order.
    """
    size = min(batch_size, examples)
    size -= size % devices
    full, rest = divmod(examples, size)
    if last_batch == "drop" or rest == 0:
        return (size,) * full
    if rest >= max(_SMALLEST, 2 * devices):
        return (*(size,) * full, rest)
    every, some = divmod(rest, full)
    return tuple(size + every + (position < some) for position in range(full))

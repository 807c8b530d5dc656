"""Make batches from memory, in an order that depends on the seed and the epoch alone.

Shapes: N examples, B examples of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from mntrain.data.examples import Examples, IndexArray
from mntrain.errors import ConfigError


class BatchLoader:
    """Makes batches of a set that is held in memory.

    The order is a function of (seed, epoch): a run resumed at epoch e sees the batches that the uninterrupted run saw,
    without replaying or storing any generator state. Every process of a data-parallel run sees the same global batches
    and takes its rows of them (:mod:`mntrain.distributed`).

    On a CUDA device the whole set is moved there once, and batches are gathered on the device.

    Args:
        examples: the set to draw from.
        batch_size: examples of a global batch.
        seed: decides the order together with the epoch.
        device: where the batches are yielded.
        shuffle: draw a new order each epoch; otherwise the order of the set.
        drop_last: leave out a last, smaller batch.

    Raises:
        ConfigError: a batch without examples, or ``drop_last`` leaving nothing.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        seed: int,
        device: torch.device | str,
        shuffle: bool,
        drop_last: bool,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
        if drop_last and len(examples) < batch_size:
            raise ConfigError(
                f"batch_size is {batch_size}, but there are {len(examples)} examples to draw from, so no full "
                f"batch exists; use a batch_size of at most {len(examples)}."
            )
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device(device)
        self.shuffle = shuffle
        self.drop_last = drop_last
        self._count = len(examples)
        # On the CPU these share the memory of the arrays; on an accelerator this is the one copy.
        self._inputs = torch.from_numpy(examples.inputs).to(self.device)
        self._targets = torch.from_numpy(examples.targets).to(self.device)

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        full, rest = divmod(self._count, self.batch_size)
        return full + (not self.drop_last and rest > 0)

    def order(self, epoch: int) -> IndexArray:
        """Return the positions of all examples in the order of ``epoch``, int64 [N]."""
        if not self.shuffle:
            return np.arange(self._count, dtype=np.int64)
        return np.random.default_rng((self.seed, epoch)).permutation(self._count).astype(np.int64, copy=False)

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs [B, …] and targets [B] of every batch of ``epoch``, on the device."""
        order = torch.from_numpy(self.order(epoch)).to(self.device)
        for number in range(len(self)):
            batch = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield self._inputs.index_select(0, batch), self._targets.index_select(0, batch)

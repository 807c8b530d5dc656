"""Make batches from memory, in an order that depends on the seed and the epoch alone.

Shapes: N examples, B examples of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mntrain.data.examples import Examples, IndexArray
from mntrain.data.order import Sampling, epoch_order
from mntrain.errors import ConfigError


class BatchLoader:
    """Makes batches of a set that is held in memory.

    The order is a function of (seed, epoch): a run resumed at epoch e sees the batches that the uninterrupted run saw,
    without replaying or storing any generator state. Every process of a data-parallel run sees the same global batches
    and takes its rows of them (:mod:`mntrain.distributed`).

    On a CUDA device the whole set is moved there once, and batches are gathered on the device.

    Args:
        examples: the set to draw from.
        sizes: examples of every global batch of an epoch; what they leave over comes in no batch.
        seed: decides the order together with the epoch.
        device: where the batches are yielded.
        shuffle: draw a new order each epoch; otherwise the order of the set.
        sampling: which examples a shuffled epoch takes.

    Raises:
        ConfigError: a batch without examples, or more examples than there are.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        sizes: Sequence[int],
        seed: int,
        device: torch.device | str,
        shuffle: bool,
        sampling: Sampling = "instance",
    ) -> None:
        if not sizes or min(sizes) < 1 or sum(sizes) > len(examples):
            raise ConfigError(
                f"Batches have {list(sizes)[:5]} examples, {sum(sizes)} in all, of {len(examples)}; give at least one "
                "batch, no empty one, and no more examples than there are."
            )
        self.sizes = tuple(sizes)
        self.seed = seed
        self.device = torch.device(device)
        self.shuffle = shuffle
        self.sampling: Sampling = sampling
        self._labels = examples.targets
        # On the CPU these share the memory of the arrays; on an accelerator this is the one copy.
        self._inputs = torch.from_numpy(examples.inputs).to(self.device)
        self._targets = torch.from_numpy(examples.targets).to(self.device)

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return len(self.sizes)

    def order(self, epoch: int) -> IndexArray:
        """Return the positions that ``epoch`` takes in their order, int64 [N]."""
        if not self.shuffle:
            return np.arange(len(self._labels), dtype=np.int64)
        return epoch_order(self._labels, self.sampling, seed=self.seed, epoch=epoch)

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs [B, …] and targets [B] of every batch of ``epoch``, on the device."""
        order = torch.from_numpy(self.order(epoch)).to(self.device)
        for batch in torch.split(order[: sum(self.sizes)], list(self.sizes)):
            yield self._inputs.index_select(0, batch), self._targets.index_select(0, batch)

"""Features of images, batch by batch, into a store that is being written.

Shapes: N images of a split, V views of each training image, B images of a batch, d features.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from mntrain.data.augmentation import Augmentation, AugmentationConfig
from mntrain.data.images import ImageData
from mntrain.data.split_record import SPLITS
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.partial_store import PartialStore
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.run_progress import RunProgress

_SECONDS_BETWEEN_LINES = 20.0


@dataclass(frozen=True, kw_only=True)
class ViewPlan:
    """Batches and views.

    Args:
        batch: B.
        crops: V; view 0 is the image itself, the others are augmented.
        seed: of the augmentation.
        augmentation: changes of all views but the first.

    Raises:
        ConfigError: a value that cannot be, or several views that would be equal.
    """

    batch: int = 64
    crops: int = 1
    seed: int = 0
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)

    def __post_init__(self) -> None:
        for name, value, most in (("batch", self.batch, 65536), ("crops", self.crops, 1000)):
            if not 1 <= value <= most:
                raise ConfigError(f"--{name} is {value}; it must be from 1 to {most}.")
        if not 0 <= self.seed < 2**31:
            raise ConfigError(f"--seed is {self.seed}; it must be from 0 to {2**31 - 1}.")
        if self.crops > 1 and self.augmentation == AugmentationConfig():
            raise ConfigError(
                f"--crops is {self.crops}, but no augmentation is set, so all views would be equal; set for instance "
                "--augmentation.flip true --augmentation.crop_padding 4, in Python augmentation={'flip': True}."
            )

    def views(self, split: str) -> int:
        """Views of each image of a split."""
        return self.crops if split == "train" else 1


class FeatureComputation:
    """Computes what a store still lacks.

    Args:
        network: that computes.
        data: images of all splits.
        plan: batches and views.
    """

    def __init__(self, network: FrozenNetwork, data: ImageData, plan: ViewPlan) -> None:
        self.network, self.data, self.plan = network, data, plan
        self._augment = Augmentation(plan.augmentation, data.height, data.width).eval() if plan.crops > 1 else None
        self.rows: Mapping[str, int] = {name: len(data.part(name)) * plan.views(name) for name in SPLITS}
        """Rows of each split in the store."""

    def fill(self, store: PartialStore, progress: RunProgress) -> int:
        """Compute the rows that are not done; returns their number.

        Raises:
            DataError: a feature is not finite.
        """
        computed, started, told = 0, time.monotonic(), time.monotonic()
        for split in SPLITS:
            while (row := store.done(split)) < self.rows[split]:
                features = self._batch(split, row)
                store.append(split, features)
                computed += len(features)
                progress.advance(len(features))
                if (now := time.monotonic()) - told >= _SECONDS_BETWEEN_LINES:
                    told = now
                    rate = computed / (now - started)
                    progress.say(f"{split}: {store.done(split)} of {self.rows[split]} rows, {rate:.0f} images/s")
        return computed

    def _batch(self, split: str, row: int) -> NDArray[np.float32]:
        """Features [B, d] of the images from ``row`` on, of one view."""
        part = self.data.part(split)
        view, start = divmod(row, len(part))
        stop = min(start + self.plan.batch, len(part))
        images = torch.from_numpy(part.images[start:stop])
        if view:
            assert self._augment is not None
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(np.random.SeedSequence((self.plan.seed, view, start)).generate_state(1)[0]))
                images = self._augment(images.float() / 255)
        with torch.inference_mode():
            features: NDArray[np.float32] = self.network.body(self.network.pixels(images)).numpy()
        finite = np.isfinite(features).all(1)
        if not finite.all():
            position = start + int(np.flatnonzero(~finite)[0])
            raise DataError(
                f"{self.network.record.name} gives features that are not finite for {self.data.place(split, position)} "
                f"of the {split} split; remove or replace that image, or check how the network takes pixels "
                "(--mean, --std, --scale)."
            )
        return features

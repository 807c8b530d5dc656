"""The training loop: one epoch, and epochs one after another, over any model family.

Shapes: images uint8 [B, channels, H, W], labels int64 [B].
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from mntrain.data.augmentation import Augmentation
from mntrain.data.images import ImageData
from mntrain.data.loader import BatchLoader
from mntrain.data.preprocessing import Preprocessing
from mntrain.errors import TrainingError
from mntrain.models.base import Batch
from mntrain.training.checkpoint import TrainingState, save_state
from mntrain.training.config import TrainingConfig
from mntrain.training.evaluation import Shard, evaluate
from mntrain.training.history import EventWriter, Row, write_csv
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.progress import TrainingProgress
from mntrain.training.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """Everything one run trains with. ``model`` and ``optimizer`` are already set up by ``fabric``.

    Args:
        run: the run's folder; checkpoints, ``metrics.csv`` and events are written there by rank 0.
        seed: of batches, augmentation and dropout.
    """

    fabric: Fabric
    model: Any
    optimizer: Any
    data: ImageData
    augmentation: Augmentation
    preprocessing: Preprocessing
    config: TrainingConfig
    run: RunFolder
    seed: int
    quiet: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)

    def train(self, state: TrainingState) -> None:
        """Train the epochs that ``state`` has not seen yet, saving it after each.

        Raises:
            TrainingError: the loss is not finite.
            CheckpointError: a checkpoint cannot be written.
        """
        loader = BatchLoader(
            self.data.train,
            batch_size=min(self.config.batch_size, len(self.data.train)),
            seed=self.seed,
            device=self.fabric.device,
            shuffle=True,
            drop_last=True,
            rank=self.fabric.global_rank,
            world_size=self.fabric.world_size,
        )
        main = self.fabric.is_global_zero
        events = EventWriter(self.run.path / "events", state.epoch) if main else None
        try:
            with TrainingProgress(self.config.epochs, len(loader), quiet=self.quiet or not main) as progress:
                for epoch in range(state.epoch, self.config.epochs):
                    started = self.clock()
                    progress.start_epoch(epoch + 1)
                    row = self._train_epoch(loader, epoch, progress) | self._validate()
                    state.seconds += self.clock() - started
                    best = self._record(state, row)
                    if events is not None:
                        events.add(row)
                    progress.end_epoch(row, best=best)
        finally:
            if events is not None:
                events.close()

    def _train_epoch(self, loader: BatchLoader, epoch: int, progress: TrainingProgress) -> Row:
        seed_epoch(self.seed, epoch, self.fabric.global_rank)
        # Sums of loss and of right answers, and images seen.
        totals = torch.zeros(3, dtype=torch.float64)
        rate = learning_rate_at(epoch, self.config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        for step, (images, labels) in enumerate(loader.epoch(epoch)):
            augmented = self.augmentation(images.float().div_(255.0))
            inputs = self.preprocessing(augmented).contiguous(memory_format=torch.channels_last)
            self.optimizer.zero_grad(set_to_none=True)
            loss, prediction = self.model.loss(Batch(inputs, labels))
            value = loss.item()
            if not math.isfinite(value):
                kept = f"The checkpoint of epoch {epoch} is kept; try" if epoch else "Try"
                raise TrainingError(
                    f"The loss is {value} in epoch {epoch + 1}, step {step + 1}. {kept} a training.learning_rate below "
                    f"{self.config.learning_rate} or a smaller step size."
                )
            self.fabric.backward(loss)
            if self.config.gradient_clip > 0:
                self.fabric.clip_gradients(self.model, self.optimizer, clip_val=self.config.gradient_clip)
            self.optimizer.step()
            right = int((prediction.logits.argmax(dim=-1) == labels).sum())
            totals += torch.tensor([value * len(labels), right, len(labels)], dtype=torch.float64)
            progress.step(*_means(totals))
        summed = self.fabric.all_reduce(totals, reduce_op="sum")
        assert isinstance(summed, torch.Tensor)
        loss_mean, accuracy = _means(summed)
        return {
            "epoch": epoch + 1,
            "learning_rate": rate,
            "train_loss": loss_mean,
            "train_accuracy": accuracy,
        }

    def _validate(self) -> Row:
        shard = Shard(rank=self.fabric.global_rank, world_size=self.fabric.world_size)
        found = evaluate(
            self.model,
            self.preprocessing,
            self.data.validation,
            self.config.evaluation_batch_size,
            shard=shard,
        )
        return {"validation_loss": found.loss, "validation_accuracy": found.accuracy}

    def _record(self, state: TrainingState, row: Row) -> bool:
        """Add a finished epoch to ``state`` and save it; True if it is the best so far."""
        earlier = state.history[state.best_epoch - 1] if state.best_epoch else None
        best = earlier is None or _rank(row) > _rank(earlier)
        state.history.append(row)
        state.epoch += 1
        if best:
            state.best_epoch = state.epoch
        if self.fabric.is_global_zero:
            state.model = self.model.state_dict()
            state.optimizer = self.optimizer.state_dict()
            # The best checkpoint first: killed in between, the epoch is run again and comes out the same.
            if best:
                save_state(self.run.best, state)
            save_state(self.run.last, state)
            with self.run.writing():
                write_csv(self.run.path / "metrics.csv", state.history)
        return best


def seed_epoch(seed: int, epoch: int, rank: int) -> None:
    """Seed augmentation and dropout of one epoch on one process; independent between all three numbers."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch, rank]).generate_state(1)[0]))


def _rank(row: Row) -> tuple[float, float]:
    return row["validation_accuracy"], -row["validation_loss"]


def _means(totals: torch.Tensor) -> tuple[float, float]:
    """Mean loss and accuracy from (loss sum, right answers, images)."""
    loss, right, images = totals.tolist()
    return loss / images, right / images

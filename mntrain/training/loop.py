"""The training loop: one epoch, and epochs one after another, over any model family.

Shapes: inputs [B, …] and targets [B] as they are stored.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from mntrain.data.examples import Examples
from mntrain.data.loader import BatchLoader
from mntrain.errors import TrainingError
from mntrain.models.base import Batch
from mntrain.training.checkpoint import TrainingState, save_state
from mntrain.training.config import TrainingConfig
from mntrain.training.evaluation import Evaluation, EvaluationPlan, Shard, evaluate
from mntrain.training.history import EventWriter, Row, write_csv
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.progress import TrainingProgress
from mntrain.training.run_folder import RunFolder
from mntrain.training.task import Task


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
    task: Task
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
            self.task.train,
            batch_size=min(self.config.batch_size, len(self.task.train)),
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
            with TrainingProgress(
                self.config.epochs, len(loader), self.task.metric, quiet=self.quiet or not main
            ) as progress:
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
        # Sums of loss and score, and examples seen.
        totals = torch.zeros(3, dtype=torch.float64)
        rate = learning_rate_at(epoch, self.config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        for step, (stored, targets) in enumerate(loader.epoch(epoch)):
            inputs = self.task.training_inputs(stored)
            self.optimizer.zero_grad(set_to_none=True)
            loss, prediction = self.model.loss(Batch(inputs, targets))
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
            score = float(self.task.metric.score(prediction, targets).sum())
            totals += torch.tensor([value * len(targets), score, len(targets)], dtype=torch.float64)
            progress.step(*_means(totals))
        summed = self.fabric.all_reduce(totals, reduce_op="sum")
        assert isinstance(summed, torch.Tensor)
        loss_mean, score_mean = _means(summed)
        return {
            "epoch": epoch + 1,
            "learning_rate": rate,
            "train_loss": loss_mean,
            f"train_{self.task.metric.name}": score_mean,
        }

    def _validate(self) -> Row:
        found = self.evaluate(self.task.validation)
        return {"validation_loss": found.loss, f"validation_{found.metric}": found.score}

    def evaluate(self, examples: Examples) -> Evaluation:
        """Evaluate the model as it stands, each process its part of ``examples``."""
        plan = EvaluationPlan(
            metric=self.task.metric,
            batch_size=self.config.evaluation_batch_size,
            shard=Shard(rank=self.fabric.global_rank, world_size=self.fabric.world_size),
        )
        return evaluate(self.model, self.task.preprocessing, examples, plan)

    def _rank(self, row: Row) -> tuple[float, float]:
        return self.task.metric.rank(row[f"validation_{self.task.metric.name}"], row["validation_loss"])

    def _record(self, state: TrainingState, row: Row) -> bool:
        """Add a finished epoch to ``state`` and save it; True if it is the best so far."""
        earlier = state.history[state.best_epoch - 1] if state.best_epoch else None
        best = earlier is None or self._rank(row) > self._rank(earlier)
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


def _means(totals: torch.Tensor) -> tuple[float, float]:
    """Mean loss and score from (loss sum, score sum, examples)."""
    loss, score, examples = totals.tolist()
    return loss / examples, score / examples

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
from safetensors.torch import save_file

from mntrain.atomic_files import write_atomically
from mntrain.data.batch_loader import BatchLoader
from mntrain.data.examples import Examples
from mntrain.distributed import process_rank
from mntrain.errors import MnTrainError, TrainingError
from mntrain.models.base import Batch, Pass
from mntrain.training.checkpoint import TrainingState, save_state
from mntrain.training.config import TrainingConfig
from mntrain.training.evaluation import Evaluation, EvaluationPlan, Shard, evaluate
from mntrain.training.history import EventWriter, Row, write_csv
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.progress import TrainingProgress
from mntrain.training.run_folder import RunFolder
from mntrain.training.training_data import TrainingData


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
    task: TrainingData
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
            batch_size=self._batch_size(),
            seed=self.seed,
            device=self.fabric.device,
            shuffle=True,
            drop_last=True,
        )
        main = self.fabric.is_global_zero
        with self.run.writing():
            events = EventWriter(self.run.path / "events", state.epoch) if main else None
        steps = len(loader) * len(self.model.passes())
        try:
            with TrainingProgress(
                self.config.epochs, steps, self.task.metric, quiet=self.quiet or not main
            ) as progress:
                if state.epoch == 0 and main and self.config.keep_every:
                    self._keep_weights(0)
                for epoch in range(state.epoch, self.config.epochs):
                    if self._gives_up(state):
                        break
                    started = self.clock()
                    progress.start_epoch(epoch + 1)
                    row = self._train_epoch(loader, epoch, progress) | self._validate(epoch)
                    state.seconds += self.clock() - started
                    best = self._record(state, row)
                    if events is not None:
                        with self.run.writing():
                            events.add(row)
                    progress.end_epoch(row, best=best)
            # Whoever looks at kept epochs wants to see how it ended.
            if main and self.config.keep_every and not self.run.kept(state.epoch).exists():
                self._keep_weights(state.epoch)
        finally:
            if events is not None:
                with self.run.writing():
                    events.close()

    def _gives_up(self, state: TrainingState) -> bool:
        """Whether too many epochs have passed since the best one."""
        return 0 < self.config.patience <= state.epoch - state.best_epoch

    def _keep_weights(self, epoch: int) -> None:
        with self.run.writing():
            self.run.kept(epoch).parent.mkdir(exist_ok=True)
            weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
            write_atomically(self.run.kept(epoch), lambda file: save_file(weights, str(file)))

    def _batch_size(self) -> int:
        """Of the global batch: no larger than the set, and the same number of rows for every process."""
        size = min(self.config.batch_size, len(self.task.train))
        return size - size % self.fabric.world_size

    def _train_epoch(self, loader: BatchLoader, epoch: int, progress: TrainingProgress) -> Row:
        seed_epoch(self.seed, epoch)
        # Sums of loss and score, and examples seen.
        totals = torch.zeros(3, dtype=torch.float64)
        rate = learning_rate_at(epoch, self.config)
        for group in self.optimizer.param_groups:
            # Checkpoints of versions in which every group had the same rate do not name it.
            group["lr"] = rate * group.get("rate", 1.0)
        self.model.train()
        for one in self.model.passes():
            sums = self._train_pass(loader, epoch, one, progress)
            totals += sums if one.loss == "loss" else 0
        summed = self.fabric.all_reduce(totals, reduce_op="sum")
        assert isinstance(summed, torch.Tensor)
        loss_mean, score_mean = _means(summed)
        return {
            "epoch": epoch + 1,
            "learning_rate": rate,
            "train_loss": loss_mean,
            f"train_{self.task.metric.name}": score_mean,
        }

    def _train_pass(self, loader: BatchLoader, epoch: int, one: Pass, progress: TrainingProgress) -> torch.Tensor:
        """All batches once; sums of loss and score, and the number of examples."""
        totals = torch.zeros(3, dtype=torch.float64)
        for step, (stored, everyone) in enumerate(loader.epoch(epoch)):
            inputs, targets = self.task.training_inputs(stored), process_rank().rows(everyone)
            sums = self._step(one, inputs, targets)
            if not math.isfinite(sums[0]):
                raise TrainingError(
                    f"The loss is {sums[0]} in epoch {epoch + 1}, step {step + 1}. {self._remedy(epoch)}"
                )
            totals += sums
            progress.step(*_means(totals))
        return totals

    def _step(self, one: Pass, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """One step of the optimiser on the groups of a pass; sums as above. No step where the loss is not finite."""
        # Parameters of other passes get no gradient, so the optimiser leaves them alone.
        only = self._only(one)
        self.optimizer.zero_grad(set_to_none=True)
        totals = torch.zeros(3, dtype=torch.float64)
        # Batch normalisation needs two examples in every part.
        count = max(1, min(self.config.accumulate, len(targets) // 2))
        parts = list(zip(inputs.tensor_split(count), targets.tensor_split(count), strict=True))
        for number, (some, wanted) in enumerate(parts):
            # Gradients are exchanged between processes once, with the last part.
            with self.fabric.no_backward_sync(self.model, enabled=number + 1 < len(parts)):
                loss, prediction = getattr(self.model, one.loss)(Batch(some, wanted))
                value = loss.item()
                score = float(self.task.metric.score(prediction, wanted).sum())
                totals += torch.tensor([value * len(wanted), score, len(wanted)], dtype=torch.float64)
                if not math.isfinite(value):
                    return totals
                self.fabric.backward(loss * (len(wanted) / len(targets)), **only)
        if self.config.gradient_clip > 0:
            self.fabric.clip_gradients(self.model, self.optimizer, clip_val=self.config.gradient_clip)
        self.optimizer.step()
        return totals

    def _only(self, one: Pass) -> dict[str, Any]:
        """Arguments that keep ``backward`` to the groups of a pass; none where it updates all of them."""
        groups = self.optimizer.param_groups
        if len(one.groups) == len(groups):
            return {}
        return {"inputs": [value for group in groups if group["name"] in one.groups for value in group["params"]]}

    def _validate(self, epoch: int) -> Row:
        found = self.evaluate(self.task.validation)
        if not (math.isfinite(found.loss) and math.isfinite(found.score)):
            raise TrainingError(f"The validation loss is {found.loss} after epoch {epoch + 1}. {self._remedy(epoch)}")
        return {"validation_loss": found.loss, f"validation_{found.metric}": found.score}

    def _remedy(self, epoch: int) -> str:
        """What to do about numbers that are not finite in epoch ``epoch`` (from 0)."""
        kept = f"The checkpoint of epoch {epoch} is kept; try" if epoch else "Try"
        return f"{kept} a training.learning_rate below {self.config.learning_rate} or a smaller step size."

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
        failure: MnTrainError | None = None
        if self.fabric.is_global_zero:
            try:
                self._save(state, best=best)
            except MnTrainError as error:
                failure = error
        # The others would wait for ever for a process that has gone.
        failures = self.fabric.all_reduce(torch.tensor(int(failure is not None)), reduce_op="sum")
        if failure is not None:
            raise failure
        assert isinstance(failures, torch.Tensor)
        if failures.item():
            raise TrainingError("The first process of the run could not save it; its own message says why.")
        return best

    def _save(self, state: TrainingState, *, best: bool) -> None:
        state.model = self.model.state_dict()
        state.optimizer = self.optimizer.state_dict()
        # The best checkpoint first: killed in between, the epoch is run again and comes out the same.
        if best:
            save_state(self.run.best, state)
        if self.config.keep_every and state.epoch % self.config.keep_every == 0:
            self._keep_weights(state.epoch)
        save_state(self.run.last, state)
        with self.run.writing():
            write_csv(self.run.path / "metrics.csv", state.history)


def seed_epoch(seed: int, epoch: int) -> None:
    """Seed augmentation and dropout of one epoch, alike in every process (:mod:`mntrain.distributed`)."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch, 0]).generate_state(1)[0]))


def _means(totals: torch.Tensor) -> tuple[float, float]:
    """Mean loss and score from (loss sum, score sum, examples)."""
    loss, score, examples = totals.tolist()
    return loss / examples, score / examples

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

from mntrain.data.batch_loader import BatchLoader
from mntrain.data.batch_sizes import batch_sizes
from mntrain.data.examples import Examples
from mntrain.distributed import global_rows, process_rank
from mntrain.errors import MnTrainError, TrainingError
from mntrain.layers.similarity.shape import require_taps
from mntrain.models.base import Batch, TrainingPhase
from mntrain.training.checkpoint import TrainingState, save_state
from mntrain.training.data_start import StartPlan, describe_start, place
from mntrain.training.evaluation import Evaluation, EvaluationPlan, Shard, evaluate
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.reporting import EventWriter, PartFigures, PhaseFigures, Row, TrainingProgress, means, write_csv
from mntrain.training.run_folder import RunFolder
from mntrain.training.setup import TrainingData
from mntrain.training_config import TrainingConfig

_READ_SECONDS = 0.1
"""Seconds between two readings of loss and score from the device: as often as progress is drawn."""


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """A model, its optimiser and its data, with everything that one run of training needs.

    Args:
        fabric: has set up ``model`` and ``optimizer`` already.
        model: wraps a :class:`~mntrain.models.base.Model`.
        optimizer: wraps the optimiser over the model's parameter groups.
        data: examples of the three splits and their metric.
        config: settings of the optimisation.
        run: the run's folder; rank 0 writes checkpoints, ``metrics.csv`` and events there.
        seed: of batches, augmentation and dropout.
        start: when the dictionary is placed on training examples; None where nothing starts from data.
        quiet: no progress.
        clock: seconds, monotonic.
    """

    fabric: Fabric
    model: Any
    optimizer: Any
    data: TrainingData
    config: TrainingConfig
    run: RunFolder
    seed: int
    start: StartPlan | None = None
    quiet: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)

    def train(self, state: TrainingState) -> None:
        """Train the epochs that ``state`` has not seen yet, saving it after each.

        Raises:
            TrainingError: the loss is not finite, or a kernel shape has no tap left. No checkpoint of that epoch is
                written; the weights in memory may have been updated further.
            CheckpointError: a checkpoint cannot be written.
        """
        loader = BatchLoader(
            self.data.train,
            sizes=batch_sizes(
                len(self.data.train),
                self.config.batch_size,
                last_batch=self.config.last_batch,
                devices=self.fabric.world_size,
            ),
            seed=self.seed,
            device=self.fabric.device,
            shuffle=True,
            sampling=self.config.sampling,
        )
        is_main = self.fabric.is_global_zero
        with self.run.writing():
            events = EventWriter(self.run.path / "events", state.epoch) if is_main else None
        steps = len(loader) * len(self.model.training_phases())
        try:
            with TrainingProgress(
                self.config.epochs, steps, self.data.metric, quiet=self.quiet or not is_main
            ) as progress:
                if state.epoch == 0 and is_main and self.config.keep_every:
                    self.run.keep_weights(0, self.model.state_dict())
                for epoch in range(state.epoch, self.config.epochs):
                    if self._out_of_patience(state):
                        break
                    started = self.clock()
                    progress.start_epoch(epoch + 1)
                    if self.start is not None and epoch == self.start.epoch:
                        state.start = place(self.start, self.model.module, self.data, self.fabric)
                        progress.note(describe_start(state.start))
                    row = self._train_epoch(loader, epoch, progress)
                    require_taps(self.model.module, epoch + 1)
                    row |= self._validate(epoch)
                    state.seconds += self.clock() - started
                    best = self._record(state, row)
                    if events is not None:
                        with self.run.writing():
                            events.add(row)
                    progress.end_epoch(row, best=best)
            # Kept epochs show how a model learns, so the last one belongs to them.
            if is_main and self.config.keep_every and not self.run.kept(state.epoch).exists():
                self.run.keep_weights(state.epoch, self.model.state_dict())
        finally:
            if events is not None:
                with self.run.writing():
                    events.close()

    def evaluate(self, examples: Examples) -> Evaluation:
        """Evaluate the model as it stands, in float32 like its artifact, each process its part of ``examples``."""
        plan = EvaluationPlan(
            metric=self.data.metric,
            batch_size=self.config.evaluation_batch_size,
            shard=Shard(rank=self.fabric.global_rank, world_size=self.fabric.world_size),
        )
        return evaluate(self.model.module, self.data.preprocessing, examples, plan)

    def _warms_up(self, epoch: int) -> bool:
        """True for an epoch (from 0) that trains the network alone."""
        return self.start is not None and epoch < self.start.epoch

    def _phases(self, epoch: int) -> tuple[TrainingPhase, ...]:
        phases: tuple[TrainingPhase, ...] = (
            self.model.warm_up_phases() if self._warms_up(epoch) else self.model.training_phases()
        )
        return phases

    def _out_of_patience(self, state: TrainingState) -> bool:
        # The first epoch with the dictionary is always trained: an artifact without it would not be of its family.
        if self.start is not None and state.epoch <= self.start.epoch:
            return False
        return 0 < self.config.patience <= state.epoch - state.best_epoch

    def _train_epoch(self, loader: BatchLoader, epoch: int, progress: TrainingProgress) -> Row:
        seed_epoch(self.seed, epoch)
        self.model.seed_draws(_seed_of(self.seed, epoch, 1))
        rate = learning_rate_at(epoch, self.config)
        for group in self.optimizer.param_groups:
            # Checkpoints of versions in which every group had the same rate do not name it.
            group["lr"] = rate * group.get("rate", 1.0)
        self.model.train()
        sums = torch.zeros(3, dtype=torch.float64)
        for phase in self._phases(epoch):
            figures = self._train_phase(loader, epoch, phase, progress)
            if phase.trains_prediction:
                sums += figures.sums
        global_sums = self.fabric.all_reduce(sums, reduce_op="sum")
        assert isinstance(global_sums, torch.Tensor)
        loss_mean, score_mean = means(global_sums)
        return {
            "epoch": epoch + 1,
            "learning_rate": rate,
            "train_loss": loss_mean,
            f"train_{self.data.metric.name}": score_mean,
        }

    def _train_phase(
        self, loader: BatchLoader, epoch: int, phase: TrainingPhase, progress: TrainingProgress
    ) -> PhaseFigures:
        """Train one phase over all batches.

        Raises:
            TrainingError: a loss is not finite.
        """
        figures, read_at, unread = PhaseFigures(), self.clock(), 0
        for stored, targets in loader.epoch(epoch):
            batch = Batch(self.data.training_inputs(stored), process_rank().rows(targets))
            figures.add_step(self._step(phase, batch, len(targets)))
            unread += 1
            if self.clock() - read_at >= _READ_SECONDS:
                self._read(figures, epoch)
                progress.advance(unread, *means(figures.sums))
                read_at, unread = self.clock(), 0
        self._read(figures, epoch)
        progress.advance(unread, *means(figures.sums))
        return figures

    def _read(self, figures: PhaseFigures, epoch: int) -> None:
        diverged = figures.read()
        if diverged is not None:
            raise TrainingError(
                f"The loss is {diverged.loss} in epoch {epoch + 1}, step {diverged.step}. {self._remedy(epoch)}"
            )

    def _step(self, phase: TrainingPhase, batch: Batch, total: int) -> list[PartFigures]:
        """Take one optimiser step on the groups of a phase.

        Args:
            phase: objective and groups.
            batch: this process's share of the global batch.
            total: examples of the global batch.

        Returns:
            Figures of the parts of the batch.
        """
        # Parameters of other phases get no gradient, so the optimiser leaves them alone.
        only = self._only(phase)
        self.optimizer.zero_grad(set_to_none=True)
        # Batch normalisation needs two examples in every part. Shares may differ by one example, counts of parts not.
        processes = self.fabric.world_size
        count = max(1, min(self.config.accumulate, total // processes // 2))
        rows_of_parts = _rows_of_parts(total, processes, count)
        splits = zip(batch.inputs.tensor_split(count), batch.targets.tensor_split(count), rows_of_parts, strict=True)
        figures: list[PartFigures] = []
        for inputs, targets, rows in splits:
            part = Batch(inputs, targets)
            # Gradients are exchanged between processes once, with the last part.
            with self.fabric.no_backward_sync(self.model, enabled=len(figures) + 1 < count), global_rows(rows):
                # Fabric casts in a marked method only where a strategy wraps the module: not on one device.
                with self.fabric.autocast():
                    loss, prediction = self.model.evaluate_objective(phase.objective, part)
                score = self.data.metric.score(prediction, targets).sum()
                figures.append(PartFigures(self._reported(loss, prediction, targets), score.detach(), len(targets)))
                # Processes are averaged, so that each example of the batch weighs 1 / total.
                self.fabric.backward(loss * (len(targets) * processes / total), **only)
        if self.config.gradient_clip > 0:
            self.fabric.clip_gradients(self.model, self.optimizer, clip_val=self.config.gradient_clip)
        self.optimizer.step()
        return figures

    def _reported(self, loss: torch.Tensor, prediction: Any, targets: torch.Tensor) -> torch.Tensor:
        """Loss [] to report: without the weights of classes, so that it compares with that of other splits and runs."""
        if self.config.class_weights == "none":
            return loss.detach()
        return self.data.metric.loss(prediction, targets).mean().detach()

    def _only(self, phase: TrainingPhase) -> dict[str, Any]:
        """Arguments that keep ``backward`` to the groups of a phase; none where it updates all of them."""
        groups = self.optimizer.param_groups
        if len(phase.groups) == len(groups):
            return {}
        return {"inputs": [value for group in groups if group["name"] in phase.groups for value in group["params"]]}

    def _validate(self, epoch: int) -> Row:
        result = self.evaluate(self.data.validation)
        if not (math.isfinite(result.loss) and math.isfinite(result.score)):
            raise TrainingError(f"The validation loss is {result.loss} after epoch {epoch + 1}. {self._remedy(epoch)}")
        return {"validation_loss": result.loss, f"validation_{result.metric}": result.score}

    def _remedy(self, epoch: int) -> str:
        """Advice about numbers that are not finite in epoch ``epoch`` (from 0)."""
        kept = f"The checkpoint of epoch {epoch} is kept; try" if epoch else "Try"
        return f"{kept} a training.learning_rate below {self.config.learning_rate} or a smaller step size."

    def _record(self, state: TrainingState, row: Row) -> bool:
        """Add a finished epoch to ``state`` and save it; True for the best epoch so far."""
        rank = self.data.metric.rank_of
        best = not state.best_epoch or rank(row) > rank(state.history[state.best_epoch - 1])
        # Epochs before the start from data have no dictionary: the first one with it takes over.
        best = best or (self.start is not None and state.epoch == self.start.epoch)
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
            self.run.keep_weights(state.epoch, self.model.state_dict())
        save_state(self.run.last, state)
        with self.run.writing():
            write_csv(self.run.path / "metrics.csv", state.history)


def _rows_of_parts(total: int, processes: int, parts: int) -> list[int]:
    """Count the rows of all processes in every part, where each splits its share of ``total`` rows by itself."""
    shares = [len(range(rank, total, processes)) for rank in range(processes)]
    return [sum(share // parts + (part < share % parts) for share in shares) for part in range(parts)]


def seed_epoch(seed: int, epoch: int) -> None:
    """Seed augmentation and dropout of a backbone for an epoch, alike in every process (:mod:`mntrain.distributed`)."""
    torch.manual_seed(_seed_of(seed, epoch, 0))


def _seed_of(seed: int, epoch: int, stream: int) -> int:
    return int(np.random.SeedSequence([seed, epoch, stream]).generate_state(1)[0])

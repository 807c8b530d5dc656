"""The folder of a run: its files, its lock, and the checks before a run goes on in it.

::

    runs/NAME/config.yaml        the resolved configuration
    runs/NAME/split.json         which example went where
    runs/NAME/data.json          what the data holds, as `mntrain data` shows it
    runs/NAME/checkpoints/       last.pt, best.pt; epoch-NNNN.safetensors of the epochs that are kept
    runs/NAME/metrics.csv        one line an epoch
    runs/NAME/events/            TensorBoard
    runs/NAME/mlruns/, wandb/    other loggers, where they write no server
    runs/NAME/loggers.json       their names of the run, under which it goes on
    runs/NAME/artifact/          the best-validation model, ready for mnexport
    runs/NAME/metrics.json       the result
"""

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from mntrain.atomic_files import write_atomically, write_text_atomically
from mntrain.config import ExperimentConfig
from mntrain.config_fields import differing_fields
from mntrain.data.images import ImageData
from mntrain.data.summary.record import RunRecord
from mntrain.data.tables import TableData
from mntrain.errors import CheckpointError, ConfigError, TrainingError
from mntrain.training.checkpoint import TrainingState, load_state
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.trained_start import check_same_start
from mntrain.training_config import TrainingConfig

DATA_FILE = "data.json"
_LOCK = ".lock"
# What may change between two parts of a run, as long as the epochs behind it ran at the same rates.
# Data and the artifact to start from may have moved: their digests tell whether they are still the same.
_MAY_CHANGE = frozenset(
    {
        *("training.epochs", "training.drop_at", "training.evaluation_batch_size", "training.loggers"),
        *("data.path", "data.lists", "training.start"),
    }
)


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Place of a run, and treatment of an earlier run of the same name.

    Args:
        runs: folder of all runs.
        resume: go on from the last checkpoint.
        overwrite: remove an earlier run of the same name first.
        quiet: no progress.
    """

    runs: Path = Path("runs")
    resume: bool = False
    overwrite: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", Path(self.runs))  # callers who check no types give a text, too
        if self.resume and self.overwrite:
            raise ConfigError("--resume and --overwrite exclude each other: choose one.")


class RunFolder:
    """Folder of a run.

    Args:
        path: runs/NAME.
        options: resume, overwrite.

    Raises:
        ConfigError: the folder exists and is neither to be resumed nor replaced, or is no run.
        CheckpointError: the run to resume does not exist.
    """

    def __init__(self, path: Path, options: FitOptions) -> None:
        self.path = path
        self._options = options
        if options.resume and not path.is_dir():
            raise CheckpointError(f"There is no run {path} to resume; start it without --resume.")
        if path.is_symlink() or not is_empty(path):
            if not options.resume and not options.overwrite:
                raise ConfigError(
                    f"Run {path} exists already; choose another --name, go on with --resume, or replace it with "
                    "--overwrite."
                )
            if path.is_symlink() or not (path / "config.yaml").is_file():
                raise ConfigError(f"{path} is not a run of mntrain and is left alone; choose another --name.")

    @property
    def goes_on(self) -> bool:
        """Whether there is a checkpoint to go on from; a run killed before its first one starts anew."""
        return self._options.resume and self.last.exists()

    @property
    def last(self) -> Path:
        """Checkpoint after the last finished epoch."""
        return self.path / "checkpoints" / "last.pt"

    @property
    def best(self) -> Path:
        """Checkpoint after the best epoch."""
        return self.path / "checkpoints" / "best.pt"

    def kept(self, epoch: int) -> Path:
        """File of the weights after an epoch, where ``training.keep_every`` asks for them."""
        return self.path / "checkpoints" / f"epoch-{epoch:04}.safetensors"

    def keep_weights(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights after an epoch.

        Raises:
            TrainingError: the folder cannot be written.
        """
        with self.writing():
            self.kept(epoch).parent.mkdir(exist_ok=True)
            on_cpu = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
            write_atomically(self.kept(epoch), lambda file: save_file(on_cpu, str(file)))

    def prepare(self, config: ExperimentConfig, data: ImageData | TableData, record: RunRecord) -> None:
        """Remove an earlier run that is to be replaced; record configuration, split and data. It is :meth:`locked`.

        The removal cannot be undone, so data, model and options must have been found to fit before.
        """
        with self.writing():
            if not self._options.resume:
                for item in self.path.iterdir():
                    if item.is_dir() and not item.is_symlink():
                        shutil.rmtree(item)
                    elif item.name != _LOCK:
                        item.unlink()
            for unfinished in self.path.glob("checkpoints/.*.pt.*"):  # left by a run killed while it saved
                unfinished.unlink()
            write_text_atomically(self.path / "config.yaml", yaml.safe_dump(config.to_dict(), sort_keys=False))
            write_text_atomically(self.path / "split.json", json.dumps(data.split.to_json()) + "\n")
            write_text_atomically(self.path / DATA_FILE, json.dumps(record, indent=2, allow_nan=False) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run against other processes for the block; a folder that stays empty is removed afterwards.

        Raises:
            ConfigError: another process trains it.
            TrainingError: the folder cannot be written.
        """
        lock = FileLock(self.path / _LOCK)
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(blocking=False)
            except Timeout as error:
                raise ConfigError(
                    f"Run {self.path} is being trained by another process; wait for it, or choose another --name."
                ) from error
        try:
            yield
        finally:
            if is_empty(self.path):
                shutil.rmtree(self.path, ignore_errors=True)
            lock.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn a failed write inside the block into a sentence.

        Raises:
            TrainingError: the folder cannot be written.
        """
        try:
            yield
        except (OSError, SafetensorError) as error:
            # safetensors wraps what the system said into an error of its own.
            reason = getattr(error, "strerror", None) or str(error)
            raise TrainingError(
                f"Run folder {self.path} cannot be written: {reason}. Make room or choose another "
                "--runs; a run that has a checkpoint goes on with --resume."
            ) from error

    def resumed(self, config: ExperimentConfig, data: ImageData | TableData) -> TrainingState | None:
        """Read the state to go on from; None where the run starts anew.

        Raises:
            ConfigError: the run was started with another configuration.
            CheckpointError: the checkpoints are damaged, or the data has changed.
        """
        if not self.goes_on:
            return None
        state = load_state(self.last)
        load_state(self.best)  # what the artifact may be made of has to be there before epochs are spent
        # Read like any recipe, so that a field that did not exist yet when the run started has its default.
        stored = ExperimentConfig.from_dict(state.config)
        changed = differing_fields(stored.to_dict(), config.to_dict(), ignore=_MAY_CHANGE)
        if changed:
            raise ConfigError(
                f"Run {self.path} was started with another configuration: {', '.join(changed[:5])}. "
                "Resume with the same recipe and overrides, or choose another --name."
            )
        if state.split_sha256 != data.split.sha256:
            raise CheckpointError(
                f"The data of run {self.path} has changed: its digest was {state.split_sha256[:12]}…, now it is "
                f"{data.split.sha256[:12]}…. Restore the data, or start again with --overwrite."
            )
        check_same_start(state.trained_start, config.training.start, self.path)
        self._check_rates(state.epoch, stored.training, config.training)
        return state

    def _check_rates(self, epochs: int, stored: TrainingConfig, training: TrainingConfig) -> None:
        """Refuse other learning rates for past epochs: the artifact must describe the run that happened."""
        if epochs > training.epochs:
            raise ConfigError(
                f"training.epochs is {training.epochs}, but run {self.path} has {epochs} epochs behind it."
            )
        if epochs and stored.warm_up_epochs != training.warm_up_epochs:
            raise ConfigError(
                f"The warm-up of run {self.path} took {stored.warm_up_epochs:g} epochs; with {training.epochs} epochs "
                f"and training.warm_up {training.warm_up:g} it would have taken {training.warm_up_epochs:g}. Keep "
                f"training.epochs {stored.epochs}, or start again with --overwrite."
            )
        earlier = dataclasses.replace(training, epochs=stored.epochs, drop_at=stored.drop_at)
        for epoch in range(epochs):
            past, new = learning_rate_at(epoch, earlier), learning_rate_at(epoch, training)
            if past != new:
                share = earlier.drop_epoch / training.epochs
                if training.milestones or training.schedule == "cosine":
                    raise ConfigError(
                        f"Epoch {epoch + 1} of run {self.path} had the learning rate {past:g}; with {training.epochs} "
                        f"epochs its schedule would have had {new:g}. Keep training.epochs {stored.epochs}, or start "
                        "again with --overwrite."
                    )
                raise ConfigError(
                    f"Epoch {epoch + 1} of run {self.path} had the learning rate {past:g}; with "
                    f"{training.epochs} epochs and a drop at {training.drop_at:g} of them it would have had {new:g}. "
                    f"Keep the drop where it was with --training.drop_at {share:.6g}, or start again with --overwrite."
                )


def is_empty(folder: Path) -> bool:
    """True where nothing is left, or only what a run left that was killed before it wrote its configuration."""
    return not folder.exists() or (folder.is_dir() and all(item.name.startswith(".") for item in folder.iterdir()))

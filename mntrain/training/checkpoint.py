"""Checkpoints, from which a killed run goes on as if nothing had happened.

``last.pt`` is written after every epoch, and once more as ``best.pt`` when that epoch was the best so far. Batches,
augmentation and dropout are seeded by (seed, epoch), so no generator state has to be kept.
"""

import pickle
import zipfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin

import torch

from mntrain.atomic_files import write_atomically
from mntrain.errors import CheckpointError

_SCHEMA = 1


@dataclass(kw_only=True)
class TrainingState:
    """State of a run between two epochs.

    Args:
        config: the run's configuration as plain values.
        split_sha256: digest of the data and its split.
        epoch: epochs finished.
        model: state dict.
        optimizer: state dict.
        history: one row of metrics for every finished epoch.
        best_epoch: epoch (from 1) with the best validation accuracy so far, 0 before the first.
        seconds: time spent training so far.
        start: figures of the start from data; empty before it, or without one.
        trained_start: the artifact whose weights the run started from; empty without one.
        average: moving average of the weights; empty without one.
    """

    config: dict[str, Any]
    split_sha256: str
    epoch: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    seconds: float = 0.0
    start: dict[str, Any] = field(default_factory=dict)
    trained_start: dict[str, Any] = field(default_factory=dict)
    average: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in fields(self):
            # A dataclass without postponed annotations holds the types themselves; dict[str, float] is a dict.
            kind = get_origin(item.type) or item.type
            if not isinstance(getattr(self, item.name), (int, float) if kind is float else kind):  # type: ignore[arg-type]
                raise TypeError(item.name)
        rows = all({"epoch", "learning_rate", "validation_loss"} <= row.keys() for row in self.history)
        if len(self.history) != self.epoch or not rows or not bool(self.epoch) <= self.best_epoch <= self.epoch:
            raise ValueError("history")


def save_state(path: Path, state: TrainingState) -> None:
    """Write the state; an older checkpoint at ``path`` survives a failure.

    Raises:
        CheckpointError: the file cannot be written (a full disk, for instance).
    """
    values = {item.name: getattr(state, item.name) for item in fields(state)}
    try:
        write_atomically(path, lambda temporary: torch.save({"schema": _SCHEMA, **values}, temporary))
    except (OSError, RuntimeError) as error:
        # PyTorch's zip writer reports a full disk as a RuntimeError about positions in its file.
        reason = getattr(error, "strerror", None) or "the disk may be full"
        kept = "The last good checkpoint is untouched; make room" if path.exists() else "Make room"
        raise CheckpointError(
            f"Checkpoint {path} cannot be written: {reason}. {kept} and go on with --resume."
        ) from error


def load_state(path: Path) -> TrainingState:
    """Read a checkpoint.

    Raises:
        CheckpointError: missing, damaged, or of another version.
    """
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint {path} to read; start the run again with --overwrite.")
    try:
        # PyTorch reads past a flipped bit; the archive's own checksums do not.
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise ValueError("checksum")
        values = torch.load(path, map_location="cpu", weights_only=True)
        schema = values.pop("schema")
        if schema != _SCHEMA:
            raise CheckpointError(
                f"Checkpoint {path} has schema {schema}; this version reads {_SCHEMA}. "
                "Start the run again with --overwrite."
            )
        return TrainingState(**values)
    except (
        OSError,
        RuntimeError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        zipfile.BadZipFile,
        pickle.UnpicklingError,
    ) as error:
        raise CheckpointError(
            f"Checkpoint {path} is damaged ({type(error).__name__}); start the run again with --overwrite."
        ) from error

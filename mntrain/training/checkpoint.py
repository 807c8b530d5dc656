"""What a killed run needs to go on as if nothing had happened.

``last.pt`` is written after every epoch, and once more as ``best.pt`` when that epoch was the best so far. Batches,
augmentation and dropout are seeded by (seed, epoch), so no generator state has to be kept.
"""

import pickle
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from mntrain.errors import CheckpointError
from mntrain.files import write_atomically

_SCHEMA = 1


@dataclass(kw_only=True)
class TrainingState:
    """State between two epochs.

    Args:
        config: the run's configuration as plain values.
        split_sha256: digest of the data and its split.
        epoch: epochs finished.
        model: state dict.
        optimizer: state dict.
        history: one row of metrics for every finished epoch.
        best_epoch: epoch (from 1) with the best validation accuracy so far, 0 before the first.
        seconds: time spent training so far.
    """

    config: dict[str, Any]
    split_sha256: str
    epoch: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    seconds: float = 0.0


def save_state(path: Path, state: TrainingState) -> None:
    """Write the state; an older checkpoint at ``path`` survives if this fails.

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
        AttributeError,
        pickle.UnpicklingError,
    ) as error:
        raise CheckpointError(
            f"Checkpoint {path} is damaged ({type(error).__name__}); start the run again with --overwrite."
        ) from error

"""Start of a model from the weights of an artifact, as far as names and shapes fit.

Shapes: any, those of the model's weights.
"""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mntrain.artifact import Artifact, load_artifact
from mntrain.artifact_config import ArtifactConfig, ImageArtifactConfig, TableArtifactConfig
from mntrain.data.labels import listing
from mntrain.data.summary.record import TrainedStartEntry
from mntrain.errors import ArtifactError, ConfigError
from mntrain.models.base import Model
from mntrain.regular_files import regular

_NETWORK = ("backbone.", "network.")
_UNADAPTED = (*_NETWORK, "head.", "auxiliary_head.")
"""Weights that a start of the dictionary from data leaves alone."""
_REPLACED = "its dictionary is placed anew, since meta_neighborhoods.init is data (paper goes on with it)"
_CLOSE = 0.01
"""Means closer than this share of a deviation, and deviations closer than this share, count as the same."""


def start_from_artifact(path: str, model: Model, planned: ArtifactConfig, *, placed: bool = False) -> TrainedStartEntry:
    """Copy weights of an artifact into an untrained model where name and shape are the same.

    A weight of the network without adaptation has one name in all families. Where classes or targets differ, weights
    that depend on them stay untrained: head and dictionary, or the last layer of a regressor.

    Args:
        path: folder of the artifact.
        model: takes the weights; on ``meta`` it only counts them.
        planned: what the artifact of the run will say of inputs, classes and targets.
        placed: whether the run places its dictionary on examples itself; that of the artifact is then left alone.

    Returns:
        What was taken, what was not, and what else differs.

    Raises:
        ArtifactError: the artifact is missing, damaged, or of another version.
        ConfigError: no kernel of its backbone, or matrix of its perceptron, has a place in the model.
    """
    artifact = load_artifact(path)
    ours, theirs = _common_names(model), _common_names(artifact.model)
    answers_differ = (planned.labels, _targets(planned)) != (artifact.config.labels, _targets(artifact.config))
    taken = {
        name
        for name in ours.keys() & theirs.keys()
        if ours[name][1].shape == theirs[name][1].shape and not (answers_differ and _is_of_answers(name, ours))
    }
    replaced = {name for name in taken if placed and not name.startswith(_UNADAPTED)}
    taken -= replaced
    if not any(name.startswith(_NETWORK) and ours[name][1].dim() > 1 for name in taken):  # scales fit by chance
        raise ConfigError(
            f"training.start {path} holds a model of family {artifact.config.family!r} on backbone "
            f"{artifact.config.experiment.backbone.name!r}, of which no kernel has name and shape of one in this "
            "network; give an artifact with the same backbone, or leave it out."
        )
    with torch.no_grad():
        for name in taken:
            ours[name][1].copy_(theirs[name][1])
    return TrainedStartEntry(
        path=path,
        family=artifact.config.family,
        weights_sha256=artifact.weights_sha256,
        taken=len(taken),
        new=[full for name, (full, _) in ours.items() if name not in taken],
        unused=[full for name, (full, _) in theirs.items() if name not in taken],
        notes=[*([_REPLACED] if replaced else []), *_notes(artifact, planned)],
    )


def check_same_start(stored: Mapping[str, Any], planned: str | None, run: Path) -> None:
    """Refuse another start than that of an earlier run; the artifact may have moved, or be gone from where it was.

    Args:
        stored: entry of the run's start; empty without one.
        planned: folder of the artifact to start from, as it is configured now.
        run: folder of the run.

    Raises:
        ConfigError: the weights are not those that the run started from.
        ArtifactError: the weights of an artifact at another place cannot be read.
    """
    digest = stored.get("weights_sha256")
    if digest is None and planned is None:
        return
    if digest is None or planned is None:
        before = "untrained" if digest is None else f"from {stored.get('path')}"
        raise ConfigError(
            f"Run {run} started {before}, but training.start is {'null' if planned is None else planned} now. Keep it, "
            "choose another --name, or remove the run."
        )
    file = Path(planned) / "model.safetensors"
    if planned == stored.get("path") and not file.exists():
        return
    try:
        now = hashlib.sha256(regular(file).read_bytes()).hexdigest()
    except OSError as error:
        raise ArtifactError(f"{file} cannot be read ({error}); training.start must be an artifact.") from error
    if now != digest:
        raise ConfigError(
            f"Run {run} started from other weights: their digest was {digest[:12]}…, that of {file} is {now[:12]}…. "
            "Restore the artifact, choose another --name, or remove the run."
        )


def _common_names(model: Model) -> dict[str, tuple[str, Tensor]]:
    """Map the name of each weight, in all families, to its name in this model and the weight itself."""
    plain = {id(value): name for name, value in model.plain().state_dict(keep_vars=True).items()}
    return {plain.get(id(value), name): (name, value) for name, value in model.state_dict(keep_vars=True).items()}


def _is_of_answers(name: str, names: Mapping[str, object]) -> bool:
    """True for weights that depend on classes or targets: all but the backbone, or a regressor's last layer too."""
    if not name.startswith(_NETWORK):
        return True
    layers = [int(other.split(".")[2]) for other in names if other.startswith("network.layers.")]
    return bool(layers) and name.startswith(f"network.layers.{max(layers)}.")


def _targets(config: ArtifactConfig) -> tuple[str, ...]:
    """Names of targets that are values; classes of one name are compared by themselves."""
    return config.targets if isinstance(config, TableArtifactConfig) and config.labels is None else ()


def _notes(artifact: Artifact, planned: ArtifactConfig) -> list[str]:
    """Say what differs between the data of an artifact and that of a run."""
    trained = artifact.config
    notes = []
    before_now = trained.experiment.backbone.name, planned.experiment.backbone.name
    if before_now[0] != before_now[1]:
        notes.append(f"its backbone was {before_now[0]!r}, this is {before_now[1]!r}")
    if trained.labels != planned.labels and trained.labels is not None and planned.labels is not None:
        notes.append(f"its classes were others ({listing(trained.labels)})")
    if _targets(trained) != _targets(planned):
        notes.append(f"its targets were others ({listing(_targets(trained)) or 'classes'})")
    if isinstance(trained, ImageArtifactConfig) and isinstance(planned, ImageArtifactConfig):
        before, now = trained.input, planned.input
        if (before.channels, before.height, before.width) != (now.channels, now.height, now.width):
            sizes = [f"{size.channels}x{size.height}x{size.width}" for size in (before, now)]
            notes.append(f"its images were {sizes[0]}, these are {sizes[1]}")
        scaled_alike = before.channels != now.channels or _close(trained.preprocessing, planned.preprocessing)
    elif isinstance(trained, TableArtifactConfig) and isinstance(planned, TableArtifactConfig):
        same = (trained.columns, trained.categories) == (planned.columns, planned.categories)
        if not same:
            notes.append(f"its columns were others ({listing(trained.columns)})")
        scaled_alike = not same or _close(trained.standardization, planned.standardization)
    else:
        return notes
    if not scaled_alike:
        notes.append("its inputs were scaled by other means and deviations")
    if trained.split["sha256"] != planned.split["sha256"]:
        notes.append("its data or split was another, so it may have been trained on test examples of this run")
    return notes


def _close(before: Any, now: Any) -> bool:
    means = np.abs(np.subtract(before.mean, now.mean)) / np.asarray(now.std)
    ratios = np.abs(np.log(np.divide(before.std, now.std)))
    return bool((means < _CLOSE).all() and (ratios < math.log1p(_CLOSE)).all())

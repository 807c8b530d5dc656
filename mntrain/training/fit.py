"""One run from configuration to artifact.

::

    runs/NAME/config.yaml        the resolved configuration
    runs/NAME/split.json         which image went where
    runs/NAME/checkpoints/       last.pt, best.pt
    runs/NAME/metrics.csv        one line an epoch
    runs/NAME/events/            TensorBoard
    runs/NAME/artifact/          the best-validation model, ready for mnexport
    runs/NAME/metrics.json       the result
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from lightning_fabric import Fabric

from mntrain.artifact import ArtifactConfig, InputSpec, build_model, current_versions, save_artifact
from mntrain.config import ExperimentConfig
from mntrain.data.augmentation import Augmentation
from mntrain.data.images import ImageData, ImageSet
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.data.sources import load_images
from mntrain.errors import CheckpointError, ConfigError
from mntrain.files import write_text_atomically
from mntrain.training.checkpoint import TrainingState, load_state
from mntrain.training.evaluation import Shard, evaluate
from mntrain.training.loop import Trainer
from mntrain.training.optimizer import build_optimizer, build_schedule

_SAMPLES = 256


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Where a run goes and what to do with one that is already there.

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
        if self.resume and self.overwrite:
            raise ConfigError("--resume and --overwrite exclude each other: choose one.")


def fit(config: ExperimentConfig, options: FitOptions) -> dict[str, Any]:
    """Train, evaluate on the test split with the best-validation weights, and write the artifact.

    Returns:
        The content of ``metrics.json``.

    Raises:
        ConfigError: the run exists already, or is another one than the one to resume.
        DataError, CheckpointError, TrainingError, ArtifactError: see there.
    """
    folder = options.runs / config.name
    _check_folder(folder, options)
    data = load_images(config.data)
    fabric = _fabric(config)
    fabric.launch()
    if fabric.is_global_zero:
        _prepare_folder(folder, config, data, options)
    fabric.barrier()

    # The weights depend on the seed alone, not on what loading the data may have drawn.
    torch.manual_seed(config.seed)
    model = build_model(config, data.channels, data.num_classes)
    # Convolutions run about a fifth faster on CPUs in this layout; the stubs of PyTorch do not know the argument.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = build_optimizer(model.parameter_groups(), config.training)
    schedule = build_schedule(optimizer, config.training)
    state = TrainingState(config=config.to_dict(), split_sha256=data.split.sha256)
    # A run killed before its first checkpoint has nothing to go on from: it starts anew.
    if options.resume and (folder / "checkpoints" / "last.pt").exists():
        state = _resume(folder, config, data)
        model.load_state_dict(state.model)
        optimizer.load_state_dict(state.optimizer)
        schedule.load_state_dict(state.schedule)

    wrapped, wrapped_optimizer = fabric.setup(model, optimizer)
    wrapped.mark_forward_method("loss")
    pixels = (
        PreprocessingConfig.from_images(data.train.images)
        if config.normalization == "per_channel"
        else PreprocessingConfig.identity(data.channels)
    )
    preprocessing = Preprocessing(pixels).to(fabric.device)
    Trainer(
        fabric=fabric,
        model=wrapped,
        optimizer=wrapped_optimizer,
        schedule=schedule,
        data=data,
        augmentation=Augmentation(config.augmentation, data.height, data.width).to(fabric.device),
        preprocessing=preprocessing,
        config=config.training,
        folder=folder,
        seed=config.seed,
        quiet=options.quiet,
    ).run(state)

    fabric.barrier()
    best = load_state(folder / "checkpoints" / "best.pt")
    model.load_state_dict(best.model)
    test = evaluate(
        wrapped,
        preprocessing,
        data.test,
        config.training.evaluation_batch_size,
        shard=Shard(rank=fabric.global_rank, world_size=fabric.world_size),
    )
    row = state.history[state.best_epoch - 1]
    result: dict[str, Any] = {
        "name": config.name,
        "family": config.family,
        "seed": config.seed,
        "parameters": parameters,
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "validation": {"accuracy": row["validation_accuracy"], "loss": row["validation_loss"]},
        "test": asdict(test),
        "train_seconds": round(state.seconds, 3),
    }
    if fabric.is_global_zero:
        save_artifact(
            folder / "artifact",
            _artifact_config(config, data, pixels, result),
            best.model,
            _samples(data.test),
        )
        write_text_atomically(folder / "metrics.json", json.dumps(result, indent=2) + "\n")
    fabric.barrier()
    return result


def _fabric(config: ExperimentConfig) -> Fabric:
    training = config.training
    try:
        return Fabric(accelerator=training.accelerator, devices=training.devices, precision=training.precision)
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"training.accelerator {training.accelerator!r} with {training.devices} device(s) and precision "
            f"{training.precision!r} is not to be had here: {' '.join(str(error).split())}"
        ) from error


def _check_folder(folder: Path, options: FitOptions) -> None:
    if options.resume and not folder.is_dir():
        raise CheckpointError(f"There is no run {folder} to resume; start it without --resume.")
    if folder.exists() and not options.resume and not options.overwrite:
        raise ConfigError(
            f"Run {folder} exists already; choose another --name, go on with --resume, or replace it with --overwrite."
        )


def _prepare_folder(folder: Path, config: ExperimentConfig, data: ImageData, options: FitOptions) -> None:
    if options.resume:
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_text_atomically(folder / "config.yaml", yaml.safe_dump(config.to_dict(), sort_keys=False))
    write_text_atomically(folder / "split.json", json.dumps(data.split.to_json()) + "\n")


def _resume(folder: Path, config: ExperimentConfig, data: ImageData) -> TrainingState:
    state = load_state(folder / "checkpoints" / "last.pt")
    wanted = config.to_dict()
    # More epochs may be asked for; everything else decides what the epochs so far have done.
    changed = [
        f"{path} ({_dig(state.config, path)!r} → {_dig(wanted, path)!r})"
        for path in sorted(_paths(state.config) | _paths(wanted))
        if _dig(state.config, path) != _dig(wanted, path) and path != "training.epochs"
    ]
    if changed:
        raise ConfigError(
            f"Run {folder} was started with another configuration: {', '.join(changed[:5])}. "
            "Resume with the same recipe and overrides, or choose another --name."
        )
    if state.split_sha256 != data.split.sha256:
        raise CheckpointError(
            f"The data of run {folder} has changed: its digest was {state.split_sha256[:12]}…, now it is "
            f"{data.split.sha256[:12]}…. Restore the data, or start again with --overwrite."
        )
    if state.epoch > config.training.epochs:
        raise ConfigError(
            f"training.epochs is {config.training.epochs}, but run {folder} has {state.epoch} epochs behind it."
        )
    return state


def _paths(values: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in values.items():
        found |= _paths(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found


def _dig(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _artifact_config(
    config: ExperimentConfig, data: ImageData, pixels: PreprocessingConfig, result: dict[str, Any]
) -> ArtifactConfig:
    return ArtifactConfig(
        experiment=config,
        input=InputSpec(channels=data.channels, height=data.height, width=data.width),
        labels=data.label_names,
        preprocessing=pixels,
        split={
            "seed": data.split.seed,
            "counts": dict(data.split.counts),
            "sha256": data.split.sha256,
        },
        metrics=result,
        versions=current_versions(),
    )


def _samples(test: ImageSet) -> ImageSet:
    """Held-out images spread over the whole test split."""
    count = min(_SAMPLES, len(test))
    return test.select(np.linspace(0, len(test) - 1, count).astype(np.int64))

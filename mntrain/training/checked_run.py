"""Load the data of a run, and check that data, model and settings fit one another, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from mntrain.config import ExperimentConfig
from mntrain.data.images import ImageData
from mntrain.data.labels import listing
from mntrain.data.loading import load_data
from mntrain.data.split_record import SPLITS
from mntrain.data.summary.record import TrainedStartEntry
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError
from mntrain.layers.frozen import freeze
from mntrain.models.base import Model
from mntrain.training.class_weights import check_sampling, weigh_classes
from mntrain.training.data_start import StartPlan, plan_start
from mntrain.training.rates import automatic_rates
from mntrain.training.setup import RunSetup, setup_for
from mntrain.training.step_memory import check_memory
from mntrain.training.trained_start import start_from_artifact


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedRun:
    """Parts of a run that fit one another; nothing has been written yet.

    Args:
        config: of the run.
        data: its three splits.
        setup: of the two.
        model: untrained, or with the weights of the artifact to start from.
        start: when its dictionary is placed on training examples; None where nothing starts from data.
        trained_start: which artifact that was; None without one, or where a checkpoint holds the weights.
        rates: factor on the learning rate of each group of parameters whose rate is found from the length of the run.
    """

    config: ExperimentConfig
    data: ImageData | TableData
    setup: RunSetup
    model: Model
    start: StartPlan | None
    trained_start: TrainedStartEntry | None
    rates: Mapping[str, float]


def check_run(config: ExperimentConfig, *, device: str = "cpu", resumed: bool = False) -> CheckedRun:
    """Load the data, build the model, and check what can be refused before training.

    Args:
        config: of the run.
        device: where the model is built; ``meta`` takes neither time nor memory.
        resumed: whether a checkpoint holds the weights, so that the artifact of a trained start is not read.

    Raises:
        ArtifactError: the artifact to start from cannot be read.
        ConfigError: settings contradict each other or the data.
        DataError: the data is missing, or cannot be used.
    """
    data = load_data(config.data)
    _check_sizes(config, data)
    setup = setup_for(config, data)
    if config.backbone.similarity.active:
        _check_memory(config, setup)
    # The weights depend on the seed alone, not on what loading the data may have drawn.
    torch.manual_seed(config.seed)
    with torch.device(device):
        model = setup.build_model()
    _check_phases(config, model)
    path = config.training.start
    start = plan_start(config, model, trained=path is not None)
    check_sampling(model, config.training)
    weigh_classes(model, config.training, data.train.targets)
    first_epoch = 0 if start is None else start.epoch
    rates = automatic_rates(model.parameter_groups(), config.training, len(data.train), first_epoch=first_epoch)
    trained = None if path is None or resumed else _trained_start(config, setup, model, start)
    _freeze(config, model)
    if trained is not None:
        _check_frozen(config, model, trained["new"])
    return CheckedRun(
        config=config, data=data, setup=setup, model=model, start=start, trained_start=trained, rates=rates
    )


def _check_memory(config: ExperimentConfig, setup: RunSetup) -> None:
    """Refuse a similarity that takes more memory than there is, by a model that takes none.

    Raises:
        ConfigError: with the setting.
    """
    with torch.device("meta"):
        model = setup.build_model()
    _freeze(config, model)
    check_memory(config, model, setup.data, setup.input_shape)


def _trained_start(
    config: ExperimentConfig, setup: RunSetup, model: Model, start: StartPlan | None
) -> TrainedStartEntry:
    """Copy the weights of the artifact to start from.

    Raises:
        ArtifactError: it cannot be read.
        ConfigError: keys would be taken from features of a backbone that is trained in part only.
    """
    path = config.training.start
    assert path is not None
    found = start_from_artifact(path, model, setup.artifact({}), placed=start is not None)
    new = [name for name in found["new"] if name.startswith("backbone.")]
    if start is not None and start.epoch == 0 and new and plan_start(config, model) != start:
        raise ConfigError(
            f"training.start {path} leaves {len(new)} weights of the backbone untrained, and a "
            "dictionary that starts from data at once would stand on their features; give meta_neighborhoods.warm_up, "
            "such as 0.75, or an artifact with the same backbone."
        )
    return found


def _freeze(config: ExperimentConfig, model: Model) -> None:
    """Freeze the part that the run does not train.

    Raises:
        ConfigError: the model has no such part, or a family moves all of it.
    """
    part = config.training.freeze
    if part == "none":
        return
    backbone = getattr(model, "backbone", None)
    if not isinstance(backbone, nn.Module) or len(model.training_phases()) > 1:
        raise ConfigError(
            f"training.freeze is {part!r}, but family {config.family!r} on this data has no backbone that can stay as "
            "it is; leave it out."
        )
    freeze(backbone, but_additions=part == "network")


def _check_frozen(config: ExperimentConfig, model: Model, new: Sequence[str]) -> None:
    """Refuse to freeze weights that the artifact to start from has not.

    Raises:
        ConfigError: with their names.
    """
    frozen = [name for name, value in model.named_parameters() if not value.requires_grad and name in new]
    if frozen:
        raise ConfigError(
            f"training.freeze is {config.training.freeze!r}, but training.start {config.training.start} has nothing "
            f"for {len(frozen)} weights of that part ({listing(frozen)}), which would never be trained; give an "
            "artifact with the same backbone and similarity, or leave training.freeze out."
        )


def _check_sizes(config: ExperimentConfig, data: ImageData | TableData) -> None:
    devices = config.training.devices
    for name in SPLITS:
        if len(data.part(name)) < devices:
            raise ConfigError(
                f"The {name} split has {len(data.part(name))} example(s), fewer than training.devices {devices}; use "
                "fewer devices or more of them."
            )
    if len(data.train) < 2 * devices:
        raise ConfigError(
            f"The training split has {len(data.train)} example(s); batch normalisation needs two on each of the "
            f"{devices} device(s)."
        )


def _check_phases(config: ExperimentConfig, model: Model) -> None:
    if len(model.training_phases()) == 1:
        return
    if config.training.devices > 1:
        raise ConfigError(
            f"training.devices is {config.training.devices}, but family {config.family!r} trains on one device: its "
            "passes update different networks."
        )
    if config.training.accumulate > 1:
        raise ConfigError(
            f"training.accumulate is {config.training.accumulate}, but family {config.family!r} judges its "
            "labels by a whole batch, for which no part can stand; leave it out, or use a smaller training.batch_size."
        )
    if config.training.compile:
        raise ConfigError(
            f"training.compile is true, but family {config.family!r} needs gradients of second order through its "
            "backbone, which a compiled network has not; leave it out."
        )

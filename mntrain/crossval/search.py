"""What the validation rows of the first fold choose: the architecture for all networks, the weight decay for each.

The runs that were searched are those of the first fold of the cross-validation itself: no test row has been looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mntrain.crossval.plan import Architecture, CrossvalOptions, Setting, base_config, plan_run
from mntrain.crossval.training import Outcome, train

Ended = Callable[[Outcome], None]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What one data set's networks are trained with.

    Args:
        architecture: of all networks; None where none is trained.
        architectures: validation error of the vanilla network on the first fold, for each architecture searched.
        settings: of each network.
        decays: of each network, the validation error on the first fold for each weight decay searched.
    """

    architecture: Architecture | None
    architectures: dict[str, float]
    settings: dict[str, Setting]
    decays: dict[str, dict[float, float]]


def choose(options: CrossvalOptions, recipe: str, ended: Ended) -> Choice:
    """Search what ``options`` ask for on the first fold of ``recipe``.

    Args:
        ended: told of every run that has ended.

    Raises:
        ConfigError, DataError, TrainingError: as :func:`mntrain.crossval.training.train`.
    """
    architecture: Architecture | None = None
    architectures: dict[str, float] = {}
    shared = Setting()
    if options.networks and options.search:
        found = _errors(options, recipe, "vanilla", [Setting(architecture=one) for one in options.architectures], ended)
        architectures = {str(one): error for one, error in zip(options.architectures, found, strict=True)}
        architecture = min(options.architectures, key=lambda one: architectures[str(one)])
        shared = Setting(architecture=architecture)
    elif options.networks:
        own = base_config(options, recipe).backbone
        architecture = Architecture(layers=own.layers, units=own.units)
    settings: dict[str, Setting] = {}
    decays: dict[str, dict[float, float]] = {}
    for family in options.networks:
        settings[family] = shared
        if options.decays:
            tried = [replace(shared, decay=decay) for decay in options.decays]
            errors = _errors(options, recipe, family, tried, ended)
            decays[family] = dict(zip(options.decays, errors, strict=True))
            settings[family] = tried[errors.index(min(errors))]
    return Choice(architecture=architecture, architectures=architectures, settings=settings, decays=decays)


def _errors(
    options: CrossvalOptions, recipe: str, family: str, settings: Sequence[Setting], ended: Ended
) -> list[float]:
    """Validation error on the first fold with each setting."""
    runs = [plan_run(options, recipe, family, setting, 0) for setting in settings]
    return [float(result["validation"]["mse"]) for result in train(runs, jobs=options.jobs, ended=ended)]

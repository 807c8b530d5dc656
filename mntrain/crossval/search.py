"""What the validation rows of the first fold choose: the architecture for all networks, the weight decay for each.

Settings are chosen once for all folds, as in the paper: the rows that choose are no test rows of the first fold, but
they are test rows of others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mntrain.crossval.plan import Architecture, CrossvalOptions, Fold, Setting, base_config, plan_run
from mntrain.crossval.training import Outcome, train

Ended = Callable[[Outcome], None]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What one data set's networks are trained with.

    Args:
        architecture: of all networks; None where none is trained.
        architectures: validation error of the vanilla network on the first fold, for each architecture searched.
        settings: of each network; a network is missing if none of the settings that were searched could be trained.
        decays: of each network, the validation error on the first fold for each weight decay searched. A setting that
            could not be trained has an infinite error, here and above.
    """

    architecture: Architecture | None
    architectures: dict[str, float]
    settings: dict[str, Setting]
    decays: dict[str, dict[float, float]]


def choose(options: CrossvalOptions, first: Fold, ended: Ended) -> Choice:
    """Search what ``options`` ask for.

    Args:
        first: the first fold of a data set.
        ended: told of every run that has ended.

    Raises:
        ConfigError: as :func:`mntrain.crossval.training.train`.
    """
    architecture: Architecture | None = None
    architectures: dict[str, float] = {}
    shared = Setting()
    if options.networks and options.search:
        found = _errors(options, first, "vanilla", [Setting(architecture=one) for one in options.architectures], ended)
        architectures = {str(one): error for one, error in zip(options.architectures, found, strict=True)}
        architecture = min(options.architectures, key=lambda one: architectures[str(one)])
        shared = Setting(architecture=architecture)
        if math.isinf(min(found)):
            return Choice(architecture=None, architectures=architectures, settings={}, decays={})
    elif options.networks:
        own = base_config(options, first.recipe).backbone
        architecture = Architecture(layers=own.layers, units=own.units)
    settings: dict[str, Setting] = {}
    decays: dict[str, dict[float, float]] = {}
    for family in options.networks:
        if not options.decays:
            settings[family] = shared
            continue
        tried = [replace(shared, decay=decay) for decay in options.decays]
        errors = _errors(options, first, family, tried, ended)
        decays[family] = dict(zip(options.decays, errors, strict=True))
        if math.isfinite(min(errors)):
            settings[family] = tried[errors.index(min(errors))]
    return Choice(architecture=architecture, architectures=architectures, settings=settings, decays=decays)


def _errors(
    options: CrossvalOptions, first: Fold, family: str, settings: Sequence[Setting], ended: Ended
) -> list[float]:
    """Validation error on the first fold with each setting; infinite where it could not be trained."""
    runs = [plan_run(options, first, family, setting) for setting in settings]
    outcomes = train(runs, jobs=options.jobs, ended=ended)
    return [math.inf if one.result is None else float(one.result["validation"]["mse"]) for one in outcomes]

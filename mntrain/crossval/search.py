"""Search by the validation rows of the first fold: the architecture of all networks, the weight decay of each.

Settings are chosen once for all folds, as in the paper. So the validation rows are no test rows of the first fold, but
test rows of other folds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mntrain.crossval.plan import Architecture, CrossvalOptions, Fold, NetworkSetting, base_config, plan_run
from mntrain.crossval.training import FoldOutcome, train

Ended = Callable[[FoldOutcome], None]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Settings of the networks of one data set.

    Args:
        architecture: architecture of all networks; None where none is trained.
        architectures: validation error of the vanilla network on the first fold, for each searched architecture.
        settings: setting of each network; networks for which no searched setting could be trained are missing.
        decays: validation error of each network on the first fold, for each searched weight decay. A setting that could
            not be trained has an infinite error, in ``architectures`` too.
    """

    architecture: Architecture | None
    architectures: dict[str, float]
    settings: dict[str, NetworkSetting]
    decays: dict[str, dict[float, float]]


def choose(options: CrossvalOptions, first: Fold, ended: Ended) -> Choice:
    """Choose the settings of all networks of a data set.

    Args:
        options: searched settings.
        first: first fold of the data set.
        ended: receives every run that has ended.

    Raises:
        ConfigError: as :func:`mntrain.crossval.training.train`.
    """
    architecture: Architecture | None = None
    architectures: dict[str, float] = {}
    shared = NetworkSetting()
    if options.networks and options.search:
        candidates = [NetworkSetting(architecture=candidate) for candidate in options.architectures]
        errors = _errors(options, first, "vanilla", candidates, ended)
        architectures = {str(item): error for item, error in zip(options.architectures, errors, strict=True)}
        architecture = min(options.architectures, key=lambda candidate: architectures[str(candidate)])
        shared = NetworkSetting(architecture=architecture)
        if math.isinf(min(errors)):
            return Choice(architecture=None, architectures=architectures, settings={}, decays={})
    elif options.networks:
        own = base_config(options, first.recipe).backbone
        architecture = Architecture(layers=own.layers, units=own.units)
    settings: dict[str, NetworkSetting] = {}
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
    options: CrossvalOptions, first: Fold, family: str, settings: Sequence[NetworkSetting], ended: Ended
) -> list[float]:
    """Return the validation error on the first fold with each setting; infinite where it could not be trained."""
    runs = [plan_run(options, first, family, setting) for setting in settings]
    outcomes = train(runs, jobs=options.jobs, ended=ended)
    return [math.inf if run.result is None else float(run.result["validation"]["mse"]) for run in outcomes]

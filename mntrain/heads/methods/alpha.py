"""Alpha Net as a method of heads, on the linear classifier of any other.

Shapes: F classes of few examples, K neighbors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mntrain.heads.alpha.problem import AlphaProblem, prepare
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.alpha.stage import AlphaResult, compose_few_classes
from mntrain.heads.alpha.sweeps import sweep_gamma, sweep_neighbors
from mntrain.heads.methods.checks import check_composed
from mntrain.heads.problem import Composition, HeadProblem, HeadResult, HeadSweep


def alpha(problem: HeadProblem) -> HeadResult:
    """Compose the classifiers of classes of few with those of their nearest classes, by learned coefficients.

    Validation rows choose γ where ``alpha.choose_gamma`` is set.

    Raises:
        ConfigError: there is no class of few examples, or settings do not fit the number of classes.
        TrainingError: the loss is not finite.
    """
    check_composed(problem)
    classifier, scale = problem.base()
    settings, store = problem.settings.alpha, problem.store
    config = settings.plain()
    data = AlphaData(split=store.train, groups=problem.groups, label_names=store.label_names)
    prepared = prepare(data, classifier, scale)
    gammas = {}
    if settings.choose_gamma or settings.sweep in ("gamma", "both"):
        gammas = sweep_gamma(prepared, config, problem.seed)
    if settings.choose_gamma:
        result = gammas[max(gammas, key=lambda gamma: problem.rank(gammas[gamma].classifier))]
    else:
        result = compose_few_classes(prepared, config, problem.seed)
    record = result.record
    return HeadResult(
        predictor=result.classifier,
        scale=scale,
        chosen={"gamma": record.config.gamma} if settings.choose_gamma else {},
        sweeps=(*_swept("γ", gammas, record.config.gamma), *_neighbor_sweep(problem, prepared, record.config.gamma)),
        composition=Composition(
            classes=record.neighbors.few,
            neighbors=record.neighbors.classes,
            coefficients=record.coefficients,
            distances=record.neighbors.distances,
        ),
        details={name: values for name, values in record.to_dict().items() if name in ("settings", "curve")},
    )


def _neighbor_sweep(problem: HeadProblem, prepared: AlphaProblem, gamma: float) -> tuple[HeadSweep, ...]:
    """Compose with each K, and with the γ of the head itself, which may be a chosen one."""
    settings = problem.settings.alpha
    if settings.sweep not in ("neighbors", "both"):
        return ()
    config = replace(settings.plain(), gamma=gamma)
    return _swept("K", sweep_neighbors(prepared, config, problem.seed), settings.neighbors)


def _swept(name: str, results: Mapping[float, AlphaResult], own: float) -> tuple[HeadSweep, ...]:
    if not results:
        return ()
    values = tuple(results)
    chosen = own if own in values else None
    return (HeadSweep(name=name, values=values, predictor=lambda value: results[value].classifier, chosen=chosen),)

"""Scores for each γ and each K, as figures 5 and 7 to 12 of the paper show them.

Shapes: S values of a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import ConfigError
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.problem import AlphaProblem
from mntrain.heads.alpha.stage import AlphaResult, compose_few_classes
from mntrain.heads.classifier import LinearClassifier

GAMMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Values of γ in figure 5."""
NEIGHBOR_COUNTS = (2, 5, 10)
"""Values of K in figure 7."""

Score = Callable[[LinearClassifier], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaSweep:
    """Scores for each value of one setting.

    Args:
        setting: gamma or neighbors.
        values: of the setting, in the order given.
        base: scores of the base classifier, the dotted lines of figure 5.
        scores: by name, float64 [S].
        results: composed classifier and record for each value.
    """

    setting: Literal["gamma", "neighbors"]
    values: tuple[float, ...]
    base: dict[str, float]
    scores: dict[str, NDArray[np.float64]]
    results: tuple[AlphaResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return setting, values and scores as plain values, without the classifiers."""
        scores = {name: values.tolist() for name, values in self.scores.items()}
        return {"setting": self.setting, "values": list(self.values), "base": self.base, "scores": scores}


def sweep_gamma(
    problem: AlphaProblem, config: AlphaConfig, seed: int, score: Score, gammas: Sequence[float] = GAMMAS
) -> AlphaSweep:
    """Compose and score classifiers for each γ, all else alike.

    Args:
        problem: rows, base classifier, class means and base logits.
        config: settings; its own γ is not used.
        seed: of every composition.
        score: names and values of a classifier's scores, on validation rows where γ is chosen by them.
        gammas: values of γ.

    Raises:
        ConfigError: a value outside (0, 1], or no values.
    """
    return _sweep(problem, [replace(config, gamma=gamma) for gamma in gammas], seed, score, "gamma")


def sweep_neighbors(
    problem: AlphaProblem, config: AlphaConfig, seed: int, score: Score, counts: Sequence[int] = NEIGHBOR_COUNTS
) -> AlphaSweep:
    """Compose and score classifiers for each K, all else alike; arguments as in :func:`sweep_gamma`.

    Raises:
        ConfigError: more neighbors than classes to choose among, or no values.
    """
    return _sweep(problem, [replace(config, neighbors=count) for count in counts], seed, score, "neighbors")


def _sweep(
    problem: AlphaProblem,
    configs: Sequence[AlphaConfig],
    seed: int,
    score: Score,
    setting: Literal["gamma", "neighbors"],
) -> AlphaSweep:
    if not configs:
        raise ConfigError(f"A sweep of alpha.{setting} needs at least one value.")
    results = tuple(compose_few_classes(problem, config, seed) for config in configs)
    scores = [score(result.classifier) for result in results]
    base = dict(score(problem.classifier))
    return AlphaSweep(
        setting=setting,
        values=tuple(getattr(config, setting) for config in configs),
        base=base,
        scores={name: np.array([values[name] for values in scores]) for name in base},
        results=results,
    )

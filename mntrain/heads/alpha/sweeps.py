"""Compositions for each γ and each K, whose scores figures 5 and 7 to 12 of the paper show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mntrain.errors import ConfigError
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.neighbors import most_neighbors
from mntrain.heads.alpha.problem import AlphaProblem
from mntrain.heads.alpha.stage import AlphaResult, compose_few_classes

GAMMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Values of γ in figure 5."""
NEIGHBOR_COUNTS = (2, 5, 10)
"""Values of K in figure 7."""


def sweep_gamma(
    problem: AlphaProblem, config: AlphaConfig, seed: int, gammas: Sequence[float] = GAMMAS
) -> dict[float, AlphaResult]:
    """Compose classifiers for each γ, all else alike.

    Args:
        problem: rows, base classifier, class means and base logits.
        config: settings; its own γ is not used.
        seed: of every composition.
        gammas: values of γ.

    Raises:
        ConfigError: a value outside (0, 1].
    """
    configs = {gamma: replace(config, gamma=gamma) for gamma in gammas}
    return {gamma: compose_few_classes(problem, changed, seed) for gamma, changed in configs.items()}


def sweep_neighbors(
    problem: AlphaProblem, config: AlphaConfig, seed: int, counts: Sequence[int] = NEIGHBOR_COUNTS
) -> dict[float, AlphaResult]:
    """Compose classifiers for each K, all else alike; arguments as in :func:`sweep_gamma`.

    Values of K above the number of classes to choose among are left out.

    Raises:
        ConfigError: all values are.
    """
    shared = sweep_counts(most_neighbors(problem.data.groups, config.source), counts)
    configs = {count: replace(config, neighbors=count) for count in shared}
    return {count: compose_few_classes(problem, changed, seed) for count, changed in configs.items()}


def sweep_counts(most: int, counts: Sequence[int] = NEIGHBOR_COUNTS) -> tuple[int, ...]:
    """Return the values of K up to ``most`` classes to choose among.

    Raises:
        ConfigError: there is none.
    """
    if found := tuple(count for count in counts if count <= most):
        return found
    raise ConfigError(
        f"A sweep over {', '.join(map(str, counts))} neighbors needs as many classes to choose among, but there are "
        f"{most}; set alpha.sweep to gamma or none, or alpha.source to base or all."
    )

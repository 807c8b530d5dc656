"""Settings of methods against a store: what can be refused before any head is made."""

from __future__ import annotations

from collections.abc import Callable

from mntrain.errors import ConfigError
from mntrain.heads.alpha.checks import check_alpha
from mntrain.heads.problem import HeadProblem

HeadCheck = Callable[[HeadProblem], None]
"""Takes a problem that has no head to start from yet; raises a ConfigError where the method does not fit it."""


def check_joint(problem: HeadProblem) -> None:
    """Check that the network has a last layer, where heads start from that."""
    if problem.settings.head.base == "network" and problem.store.classifier is None:
        raise ConfigError(
            f"head.base is 'network', but {problem.store.path} has no last layer of its network; leave --head.base "
            "out to train a linear probe."
        )


def check_bias(problem: HeadProblem) -> None:
    """Check that there are classes of few, and others."""
    problem.groups.require_few(problem.method)


def check_fixed(problem: HeadProblem) -> None:
    """Check that there are classes of few, and K others."""
    problem.groups.require_few(problem.method, problem.settings.head.neighbors)


def check_composed(problem: HeadProblem) -> None:
    """Check that there are classes of few, and that settings of Alpha Net fit classes and features."""
    settings, store = problem.settings.alpha, problem.store
    problem.groups.require_few(problem.method, settings.neighbors if settings.source == "base" else 1)
    # A probe has no weight for features that are left out; the network's own layer may have one.
    left_out = 0 if problem.settings.head.base == "network" else problem.scale.left_out
    check_alpha(settings, problem.groups, store.features, min(store.classes - 1, store.features - left_out))

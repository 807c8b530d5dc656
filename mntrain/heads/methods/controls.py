"""Controls that cost nothing: what a method for classes of few examples has to be better than.

Shapes: C classes, d features, F classes of few examples, K neighbors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mntrain.heads.alpha.compose import compose
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.groups import class_means, nearest_means
from mntrain.heads.methods.checks import check_bias, check_fixed
from mntrain.heads.problem import Composition, HeadProblem, HeadResult, HeadSweep

CONSTANTS = tuple(round(0.25 * step, 2) for step in range(21))
"""Constants added to biases, in nats."""
COEFFICIENTS = tuple(round(0.02 * step, 2) for step in range(21))
"""Coefficients of each neighbor."""


def bias(problem: HeadProblem) -> HeadResult:
    """Add one constant to the biases of classes of few; validation rows choose it where ``head.constant`` is None.

    Raises:
        ConfigError: there is no class of few examples.
    """
    check_bias(problem)
    classifier, _ = problem.base()
    few = problem.groups.members("few")

    def head(constant: float) -> LinearClassifier:
        biases = classifier.bias.copy()
        biases[few] += np.float32(constant)
        return LinearClassifier(weight=classifier.weight, bias=biases)

    return _swept(problem, "constant", CONSTANTS, head, problem.settings.head.constant)


def fixed(problem: HeadProblem) -> HeadResult:
    """Compose each class of few with fixed coefficients: 1 of itself and ``a`` of each of its K nearest base classes.

    Validation rows choose ``a`` where ``head.coefficient`` is None.

    Raises:
        ConfigError: there is no class of few examples, or there are fewer than K base classes.
    """
    check_fixed(problem)
    count = problem.settings.head.neighbors
    classifier, _ = problem.base()
    few = problem.groups.members("few")
    means = class_means(problem.store.train, problem.store.classes)
    neighbors, _ = nearest_means(means, few, problem.groups.members("base"), count)

    def composition(coefficient: float) -> Composition:
        coefficients = np.full((len(few), count + 1), coefficient)
        coefficients[:, 0] = 1.0
        return Composition(classes=few, neighbors=neighbors, coefficients=coefficients)

    def head(coefficient: float) -> LinearClassifier:
        composed = composition(coefficient)
        return compose(classifier, composed.members, composed.coefficients)

    return _swept(problem, "coefficient", COEFFICIENTS, head, problem.settings.head.coefficient, composition)


def _swept(
    problem: HeadProblem,
    name: str,
    values: tuple[float, ...],
    head: Callable[[float], LinearClassifier],
    given: float | None,
    composition: Callable[[float], Composition] | None = None,
) -> HeadResult:
    best = max(values, key=lambda value: problem.rank(head(value))) if given is None else given
    return HeadResult(
        predictor=head(best),
        scale=problem.base()[1],
        chosen={name: best},
        sweeps=(HeadSweep(name=name, values=values, predictor=head, chosen=best),),
        composition=None if composition is None else composition(best),
    )

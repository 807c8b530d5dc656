"""Controls that cost nothing: what a method for classes of few examples has to be better than.

Shapes: C classes, d features, F classes of few examples, K neighbors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mntrain.heads.alpha.compose import compose
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.grid import Grid, GridChoice
from mntrain.heads.groups import class_means, nearest_means
from mntrain.heads.methods.checks import check_bias, check_fixed
from mntrain.heads.problem import Composition, HeadProblem, HeadResult, HeadSweep

CONSTANTS = Grid(
    name="constant", values=tuple(round(0.25 * step, 2) for step in range(21)), least=0.0, most=100.0, factor=1.25
)
"""Constants added to biases, in nats."""
COEFFICIENTS = Grid(
    name="coefficient", values=tuple(round(0.02 * step, 2) for step in range(21)), least=0.0, most=10.0, factor=1.25
)
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

    return _swept(problem, CONSTANTS, head, problem.settings.head.constant)


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

    return _swept(problem, COEFFICIENTS, head, problem.settings.head.coefficient, composition)


def _swept(
    problem: HeadProblem,
    grid: Grid,
    head: Callable[[float], LinearClassifier],
    given: float | None,
    composition: Callable[[float], Composition] | None = None,
) -> HeadResult:
    choice = GridChoice(value=given, values=grid.values) if given is not None else None
    choice = choice or grid.choose(lambda value: problem.rank(head(value)))
    best = choice.value
    return HeadResult(
        predictor=head(best),
        scale=problem.base()[1],
        chosen={grid.name: best},
        sweeps=(HeadSweep(name=grid.name, values=choice.values, predictor=head, chosen=best),),
        composition=None if composition is None else composition(best),
        notes=choice.notes,
    )

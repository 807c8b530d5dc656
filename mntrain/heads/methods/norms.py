"""τ-normalised classifiers (Kang et al. 2020, "Decoupling Representation and Classifier", section 4.1).

Shapes: C classes, d features.
"""

from __future__ import annotations

import numpy as np

from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.grid import Grid
from mntrain.heads.problem import HeadProblem, HeadResult, HeadSweep

TAUS = Grid(name="tau", values=tuple(round(0.1 * step, 1) for step in range(21)), least=0.0, most=5.0, factor=1.25)
"""Values of τ that the validation rows choose from."""


def tau(problem: HeadProblem) -> HeadResult:
    """Divide every weight vector by its norm to the power τ, and drop the bias; validation rows choose τ."""
    classifier, scale = problem.base()

    def head(value: float) -> LinearClassifier:
        return tau_normalised(classifier, scale, value)

    choice = TAUS.choose(lambda value: problem.rank(head(value)))
    sweep = HeadSweep(name="τ", values=choice.values, predictor=head, chosen=choice.value)
    chosen = {"tau": choice.value}
    return HeadResult(predictor=head(choice.value), scale=scale, chosen=chosen, sweeps=(sweep,), notes=choice.notes)


def tau_normalised(classifier: LinearClassifier, scale: FeatureScale, value: float) -> LinearClassifier:
    """Return w_c / ‖w_c‖^τ without bias, on the features that the classifier has learned on.

    Dropping the bias of the folded classifier instead would drop the centring of the features too.

    Args:
        classifier: of stored features.
        scale: standardisation that it has learned on.
        value: τ.
    """
    weight, bias = scale.unfolded(classifier)
    norms = np.linalg.norm(weight, axis=1, keepdims=True)
    norms = np.maximum(norms**value, np.finfo(np.float64).tiny)  # a class of weights 0 keeps them
    return scale.folded(weight / norms, np.zeros_like(bias))

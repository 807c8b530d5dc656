"""τ-normalised classifiers (Kang et al. 2020, "Decoupling Representation and Classifier", section 4.1).

Shapes: C classes, d features.
"""

from __future__ import annotations

import numpy as np

from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.problem import HeadProblem, HeadResult, HeadSweep

TAUS = tuple(round(0.1 * step, 1) for step in range(21))
"""Values of τ that the validation rows choose from."""


def tau(problem: HeadProblem) -> HeadResult:
    """Divide every weight vector by its norm to the power τ, and drop the bias; validation rows choose τ."""
    classifier, scale = problem.base()
    heads = {value: tau_normalised(classifier, scale, value) for value in TAUS}
    best = max(TAUS, key=lambda value: problem.rank(heads[value]))
    sweep = HeadSweep(name="τ", values=TAUS, predictor=heads.__getitem__, chosen=best)
    return HeadResult(predictor=heads[best], scale=scale, chosen={"tau": best}, sweeps=(sweep,))


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

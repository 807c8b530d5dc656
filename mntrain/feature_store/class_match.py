"""The last layer of a network, held against the classes of the data.

Shapes: C classes of the data, d features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.frozen_network import FrozenNetwork


def match_classes(network: FrozenNetwork, names: Sequence[str]) -> tuple[LinearClassifier | None, str]:
    """Take the rows of the network's classifier that belong to the classes of the data, in their order.

    Args:
        network: with a classifier, or none.
        names: of the C classes.

    Returns:
        The classifier [C, d], None where there is none for these classes; and a sentence about it.
    """
    classifier, known = network.classifier, network.label_names
    if classifier is None:
        return None, "the network has no linear last layer, or none that is known"
    if known is not None and set(names) <= set(known):
        if twice := [name for name in names if known.count(name) > 1]:
            return None, f"the network's own has several classes {twice[0]!r}, so the store has none"
        rows = np.array([known.index(name) for name in names])
        chosen = LinearClassifier(weight=classifier.weight[rows].copy(), bias=classifier.bias[rows].copy())
        return chosen, f"the network's own, {len(names)} of {len(known)} classes by name"
    if known is None and classifier.classes == len(names):
        return classifier, f"the network's own, whose {len(names)} classes are taken to be those of the data in order"
    return None, f"the network's own knows {classifier.classes} other classes, so the store has none"

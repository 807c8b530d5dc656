"""Principal directions in which the weight of each class is moved.

Shapes: N queries, C classes, d features. Directions g [N, C, d]; eigenvectors V [C, d, d] (columns) and eigenvalues
[C, d].
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class Basis(NamedTuple):
    """Principal directions of every class over calibration queries.

    They are the eigenvectors of the second moment, not of the covariance: ‖g‖² is approximated, and the mean of g is a
    part of it.
    """

    vectors: Tensor  # V [C, d, d], one column a direction
    energies: Tensor  # [C, d]: mean squared length along it, times the weight of the class


def basis_of(directions: Iterable[Tensor], class_weights: Tensor) -> Basis:
    """Compute the principal directions of every class.

    Args:
        directions: parts g [n, C, d] of the calibration queries.
        class_weights: [C], how much a squared length of 1 matters in each class.
    """
    energies, vectors = torch.linalg.eigh(second_moments(directions))
    return Basis(vectors, energies.clamp_min(0) * class_weights.unsqueeze(-1))


def second_moments(directions: Iterable[Tensor]) -> Tensor:
    """Average g gᵀ for every class [C, d, d], over parts g [n, C, d]; at least one query."""
    total, count = torch.zeros(()), 0
    for part in directions:
        by_class = part.transpose(0, 1)
        total = total + by_class.mT @ by_class
        count += len(part)
    return total / count


def strongest(energies: Tensor) -> Tensor:
    """Order all pairs of class and direction by energy, largest first: int64 [C·d], indices into the flat [C, d]."""
    return torch.argsort(energies.flatten(), descending=True, stable=True)

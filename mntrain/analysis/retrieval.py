"""Retrieval of nearest neighbors by attention vectors and by features (appendix A.9, Fig. 6).

Shapes: N queries, M references, F dimensions (S entries or d features).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

NEIGHBORS = 10
_SHOWN = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Retrieval:
    """References nearest to every query, nearest first, by cosine distance.

    Args:
        nearest: int64 [N, K], positions of the references.
    """

    nearest: NDArray[np.int64]

    @property
    def shown(self) -> NDArray[np.int64]:
        """Nearest few, int64 [N, 5], for pictures."""
        return self.nearest[:, :_SHOWN]

    def accuracy(self, reference_labels: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
        """Return the share of queries that have the commonest label of their neighbors; ties go to the lower label."""
        votes = reference_labels[self.nearest]
        counts = np.stack([np.bincount(row, minlength=int(reference_labels.max()) + 1) for row in votes])
        return float((counts.argmax(axis=1) == labels).mean())


def retrieve(references: Tensor, queries: Tensor, neighbors: int = NEIGHBORS) -> Retrieval:
    """Find the neighbors of queries [N, F] among references [M, F], at most M of them."""
    search = NearestNeighbors(n_neighbors=min(neighbors, len(references)), metric="cosine", algorithm="brute")
    return Retrieval(nearest=search.fit(references.numpy()).kneighbors(queries.numpy(), return_distance=False))

"""Low-rank norm: the factored form with the norm of the adapted weight from R directions instead of C·d.

Only ‖u_c − s_c ŵ_c‖² needs S·C·d multiplications; every other term is exact and cheap. With orthonormal directions b of
a class the squared length is Σ_b ((u_c − s_c ŵ_c)·b)², and each term is linear in the attention: one column of a
constant table. Of the C·d directions the R strongest over calibration queries are kept. (A low rank of the attention
itself needs about twice the rank, and C·d·r multiplications to come back from it.)

Shapes: B queries, S entries, C classes, d features, R directions. attention ω [B, S], s and ‖·‖² [B, C].
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from mnexport.forms.constants import Constants
from mnexport.forms.low_rank.basis import Basis, strongest
from mnexport.forms.low_rank.integer_tables import BlockTable
from mntrain.models.meta_neighborhoods.inner import CosineProblem


class NormTable(NamedTuple):
    """Constants that turn attention into s and the squared norms."""

    moments: Tensor  # [S, C + R]: ω times it is s [C] and the coefficients [R]
    classes: Tensor  # [R, C]: 1 where the direction is one of the class


def norm_table(problem: CosineProblem, basis: Basis, rank: int) -> NormTable:
    """Make the table of the ``rank`` strongest directions.

    Args:
        problem: the inner problem.
        basis: principal directions of u − s ŵ.
        rank: R, 1 to C·d.
    """
    features = basis.energies.shape[1]
    chosen = strongest(basis.energies)[:rank]
    classes, columns = chosen // features, chosen % features
    directions = basis.vectors[classes, :, columns]  # [R, d]
    removed = (directions * problem.prototypes[classes]).sum(dim=-1)
    along = problem.residuals * problem.cosines
    coefficients = problem.residuals[:, classes] * (problem.keys @ directions.mT) - along[:, classes] * removed
    membership = one_hot(classes, len(problem.prototypes)).to(along.dtype)
    return NormTable(torch.cat([along, coefficients], dim=1), membership)


class LowRankNorm(nn.Module):
    """Approximate norm of the adapted weight: s [B, C] and ‖u − s ŵ‖² [B, C] from attention ω [B, S].

    Args:
        table: constants.
        block: entries of a block of the table with a row for every entry, in 8 bits; None keeps floats.
    """

    def __init__(self, table: NormTable, block: int | None = None) -> None:
        super().__init__()
        self.table: Constants[NormTable] = Constants(table)
        self.moments = None if block is None else BlockTable(table.moments, block)

    def forward(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Compute s and squared norms [B, C] from attention [B, S]."""
        table = self.table()
        classes = table.classes.shape[1]
        moments = weights @ table.moments if self.moments is None else self.moments(weights)
        return moments[:, :classes], moments[:, classes:].square() @ table.classes

"""Table of a head with a row for every entry, in floats or in 8 bits.

Shapes: B queries, S entries, N columns. table [S, N].
"""

from torch import Tensor, nn

from mnexport.forms.constants import Constants
from mnexport.forms.low_rank.integer_tables import IntegerTable, integer_table, table_products


class HeadTable(nn.Module):
    """Constant table [S, N] that rows [B, S] are multiplied with.

    Args:
        values: the table.
        block: entries of a block in 8 bits; None keeps floats.
    """

    values: Tensor | None

    def __init__(self, values: Tensor, block: int | None = None) -> None:
        super().__init__()
        self.codes: Constants[IntegerTable] | None = None if block is None else Constants(integer_table(values, block))
        self.register_buffer("values", values.detach().clone() if block is None else None)

    def forward(self, left: Tensor) -> Tensor:
        """Multiply rows [B, S] with the table: [B, N]."""
        if self.codes is not None:
            return table_products(left, self.codes())
        assert self.values is not None
        return left @ self.values

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
        in_8_bits: rounded to 8 bits.
    """

    values: Tensor | None

    def __init__(self, values: Tensor, *, in_8_bits: bool = False) -> None:
        super().__init__()
        self.codes: Constants[IntegerTable] | None = Constants(integer_table(values)) if in_8_bits else None
        self.register_buffer("values", None if in_8_bits else values.detach().clone())

    def forward(self, left: Tensor) -> Tensor:
        """Multiply rows [B, S] with the table: [B, N]."""
        if self.codes is not None:
            return table_products(left, self.codes())
        assert self.values is not None
        return left @ self.values

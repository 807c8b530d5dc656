"""Tables in 8 bits: a quarter of the bytes that a product of the attention with a wide table has to fetch.

A column is cut into blocks of entries, each whole numbers times a step of its own. So one large residual costs its
block alone its small numbers; larger blocks have fewer steps to read. The left side is rounded too, in the same blocks
of every row, because ONNX Runtime's kernel multiplies whole numbers. Both roundings differ from entry to entry, and
sums over the attention average them out.

Shapes: B queries, S entries, N columns, K blocks of b entries (the last is filled up). left [B, S], table [S, N],
products [B, N].
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mnexport.forms.constants import Constants

WIDE = 64
"""Classes from which tables in 8 bits are worth it; narrower ones take hardly any time."""
BLOCKS = (256, 128, 64, 32)
"""Entries b of a block that ONNX Runtime takes, the fastest first."""
_LEVELS = 127
_MIDDLE = 128
_DOMAIN = "com.microsoft"
# ONNX Runtime rounds the left side to 8 bits; with other levels it would unpack the table to floats first.
_WHOLE_NUMBERS = 4


class IntegerTable(NamedTuple):
    """Table in 8 bits."""

    codes: Tensor  # uint8 [N, K, b], 128 is zero
    steps: Tensor  # [N, K]: number = (code − 128) · step


def integer_table(table: Tensor, block: int) -> IntegerTable:
    """Round a table [S, N] to 8 bits, in blocks of b entries."""
    codes, steps = _rounded(table.mT, block)
    return IntegerTable((codes + _MIDDLE).to(torch.uint8), steps.squeeze(-1))


def table_products(left: Tensor, table: IntegerTable) -> Tensor:
    """Compute products [B, N] of rows [B, S] with the table; the rows are rounded to 8 bits, too."""
    products: Tensor = _product()(left, table.codes, table.steps)
    return products


class BlockTable(nn.Module):
    """Constant table [S, N] in 8 bits that rows [B, S] are multiplied with.

    Args:
        values: the table.
        block: b.
    """

    def __init__(self, values: Tensor, block: int) -> None:
        super().__init__()
        self.table: Constants[IntegerTable] = Constants(integer_table(values, block))

    def forward(self, left: Tensor) -> Tensor:
        """Multiply rows [B, S] with the table: [B, N]."""
        return table_products(left, self.table())


def _rounded(rows: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Round rows [R, S] to whole numbers from −127 to 127 [R, K, b], kept as floats, and steps [R, K, 1]."""
    count = -(-rows.shape[1] // block)
    blocks = pad(rows, (0, -rows.shape[1] % block)).reshape(len(rows), count, block)
    steps = blocks.abs().amax(dim=-1, keepdim=True) / _LEVELS
    # A block of zeros has zeros for codes.
    return (blocks / steps.clamp_min(torch.finfo(rows.dtype).tiny)).round(), steps


@cache
def _product() -> Any:
    """Register the product of rows [B, S] with a table in 8 bits, which PyTorch's exporter does not know."""

    @torch.library.custom_op("mnexport::table_product", mutates_args=())
    def table_product(left: Tensor, codes: Tensor, steps: Tensor) -> Tensor:
        numbers, left_steps = _rounded(left, codes.shape[2])
        table = (codes.to(left.dtype) - _MIDDLE) * steps.to(left.dtype).unsqueeze(-1)
        return (numbers * left_steps).flatten(1) @ table.flatten(1).mT

    @table_product.register_fake
    def _(left: Tensor, codes: Tensor, steps: Tensor) -> Tensor:
        return left.new_empty(left.shape[0], codes.shape[0])

    return table_product


def onnx_translations() -> dict[Any, Any]:
    """Translate the operator to ONNX Runtime's, for the exporter's ``custom_translation_table``."""
    from onnxscript.values import Op, Opset

    operator: Any = Op(Opset(_DOMAIN, 1), "MatMulNBits", _schema())
    _product()

    def table_product(left: Any, codes: Any, steps: Any) -> Any:
        settings = {"bits": 8, "block_size": codes.shape[2], "accuracy_level": _WHOLE_NUMBERS}
        return operator(left, codes, steps, K=left.shape[1], N=codes.shape[0], **settings)

    return {torch.ops.mnexport.table_product.default: table_product}


def _schema() -> Any:
    """Describe ``MatMulNBits`` as far as it is used: the exporter knows standard operators alone."""
    from onnx.defs import OpSchema

    parameter = OpSchema.FormalParameter
    return OpSchema(
        "MatMulNBits",
        _DOMAIN,
        1,
        inputs=[parameter("A", "T"), parameter("B", "C"), parameter("scales", "T")],
        outputs=[parameter("Y", "T")],
        type_constraints=[("T", ["tensor(float)"], ""), ("C", ["tensor(uint8)"], "")],
        attributes=[
            OpSchema.Attribute(name, OpSchema.AttrType.INT)
            for name in ("K", "N", "bits", "block_size", "accuracy_level")
        ],
    )

"""Keys in 8 bits: a quarter of the bytes that the products of one query have to fetch.

Every key is a row of whole numbers times a step of its own. The query is split in two: q = h / 127 + l / (127·254) with
whole h and l of at most 127, so that 15 bits of it are kept; both go through one product of whole numbers, which is
exact. Errors come from the rounded keys alone. They differ from entry to entry, and sums over the attention average
them out; an error of the query would be the same for all.

Keys are rounded with error feedback (Frantar et al. 2022, "GPTQ", equations 2 and 3): what rounding one feature takes
away is given back by features that go with it in the second moment of the keys, which lie where queries lie. Products
with real queries then err less than with each number rounded to the nearest.

Shapes: B queries, S entries, d features. query ẑ [B, d], products P [B, S] ≈ ẑ k̂ᵀ.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

_LEVELS = 127
_FINE = 254
# Share of the mean second moment that every feature gets on top.
_DAMPING = 0.01


class IntegerKeys(NamedTuple):
    """Keys in 8 bits."""

    codes: Tensor  # int8 [d, S]
    steps: Tensor  # [S]: key = codes · step


def integer_keys(keys: Tensor) -> IntegerKeys:
    """Round unit keys k̂ [S, d] to 8 bits."""
    steps = keys.abs().amax(dim=1) / _LEVELS
    # A key of zeros has zeros for codes.
    remaining = keys.double() / steps.double().clamp_min(torch.finfo(keys.dtype).tiny).unsqueeze(1)
    order, shares = _feedback(keys.double())
    codes = torch.empty_like(remaining)
    for position, feature in enumerate(order.tolist()):
        codes[:, feature] = remaining[:, feature].round().clamp(-_LEVELS, _LEVELS)
        later = order[position + 1 :]
        remaining[:, later] -= (remaining[:, feature] - codes[:, feature]).unsqueeze(1) * shares[
            position, position + 1 :
        ]
    return IntegerKeys(codes.to(torch.int8).mT.contiguous(), steps)


def _feedback(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the order in which features are rounded [d], and the share of an error for each later one [d, d]."""
    moment = keys.mT @ keys
    order = moment.diagonal().argsort(descending=True, stable=True)
    # The damping keeps features that no key has apart from each other, and the moment invertible.
    damping = (_DAMPING * moment.diagonal().mean()).clamp_min(torch.finfo(moment.dtype).tiny)
    damped = moment[order][:, order] + damping * torch.eye(len(moment), dtype=moment.dtype)
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True)
    return order, factor / factor.diagonal().unsqueeze(1)


def integer_products(query: Tensor, keys: IntegerKeys) -> Tensor:
    """Compute products P [B, S] of unit queries ẑ [B, d] with the keys."""
    scaled = query * _LEVELS
    high = scaled.round()
    low = ((scaled - high) * _FINE).round()
    sums = _product()(torch.cat([high, low]), keys.codes)
    coarse, fine = sums.to(query.dtype).unflatten(0, (2, -1)).unbind()
    step = keys.steps / _LEVELS
    products: Tensor = coarse * step + fine * (step / _FINE)
    return products


@cache
def _product() -> Any:
    """Register the product of whole numbers [R, d] of at most 127, kept as floats, with int8 [d, S]: floats [R, S].

    PyTorch has no product of whole numbers that its exporter knows, so that this is a custom operator.
    """

    @torch.library.custom_op("mnexport::integer_product", mutates_args=())
    def integer_product(left: Tensor, codes: Tensor) -> Tensor:
        return left @ codes.to(left.dtype)

    @integer_product.register_fake
    def _(left: Tensor, codes: Tensor) -> Tensor:
        return left.new_empty(left.shape[0], codes.shape[1])

    return integer_product


def onnx_translations() -> dict[Any, Any]:
    """Translate the operator to ONNX, for the exporter's ``custom_translation_table``."""
    import onnx
    from onnxscript import opset18

    op: Any = opset18
    _product()

    def integer_product(left: Any, codes: Any) -> Any:
        # ONNX Runtime is fast where the left side is unsigned and the right side signed.
        shifted: Any = op.Cast(op.Add(left, op.Constant(value_float=128.0)), to=onnx.TensorProto.UINT8)
        zero: Any = op.Cast(op.Constant(value_int=128), to=onnx.TensorProto.UINT8)
        return op.Cast(op.MatMulInteger(shifted, codes, zero), to=onnx.TensorProto.FLOAT)

    return {torch.ops.mnexport.integer_product.default: integer_product}

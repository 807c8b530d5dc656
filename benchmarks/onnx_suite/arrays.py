"""Values of a tensor: what the suite holds as plain arrays, and equality bit by bit.

Arrays have any shape. Element types that numpy lacks (bfloat16 and narrower ones) are those of ml_dtypes; strings are
object arrays of str or bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

Array = np.ndarray[Any, Any]


def plain_value(value: Any) -> Any:
    """Convert an input of the suite: a tensor becomes an array, a sequence a list of arrays, an empty optional None."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, TensorProto):
        return plain_value(numpy_helper.to_array(value))
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def has_non_finite(array: Array) -> bool:
    """Tell whether an array of any floating type holds NaN or infinity."""
    try:
        return not bool(np.isfinite(array).all())
    except TypeError:  # strings, and types without such values
        return False


def difference(found: Sequence[Array], expected: Sequence[Array]) -> str | None:
    """Describe the first difference of two lists of arrays; None where all bits are equal."""
    if len(found) != len(expected):
        return f"{len(found)} outputs in place of {len(expected)}"
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        what = f"output {number}"
        if one.shape != other.shape:
            return f"{what} has shape {list(one.shape)} in place of {list(other.shape)}"
        if one.dtype.kind == "O" or other.dtype.kind == "O":
            if [_bytes(item) for item in one.ravel()] != [_bytes(item) for item in other.ravel()]:
                return f"{what} has other strings"
            continue
        if one.dtype != other.dtype:
            return f"{what} is {one.dtype} in place of {other.dtype}"
        if one.tobytes() != other.tobytes():
            return f"{what} has other values"
    return None


def _bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()

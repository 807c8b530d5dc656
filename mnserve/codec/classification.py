"""Classification of outputs: the k highest scores as texts, ``score:index:label``, in place of all scores.

Shapes: an output has B rows of N elements, whatever dimensions those have; a model without a batch dimension has one
row. The format is Triton's: scores of floats have six decimals, and a class without a label has no third part. Of equal
scores the lower index comes first, and NaN comes last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mnserve.codec.datatypes import Datatype
from mnserve.codec.shared_memory import Slice
from mnserve.codec.signature import RequestSignature
from mnserve.errors import InvalidRequestError
from mnserve.protocol import service_pb2 as pb

Array = np.ndarray[Any, Any]

CLASSIFICATION: Final = "classification"
"""Parameter of a requested output: the number of classes wanted."""
MAX_SCORES: Final = 1_000_000
"""Most scores of one row, as in Triton."""
MAX_TEXTS: Final = 2**20
"""Most texts of one output; each becomes an object of its own."""


def class_counts(
    outputs: Iterable[pb.ModelInferRequest.InferRequestedOutputTensor],
    signature: RequestSignature,
    targets: Mapping[str, Slice],
) -> Mapping[str, int] | None:
    """Reads how many classes a request wants of each output; None where it wants none.

    Args:
        outputs: Outputs that the request asks for, all of them known.
        signature: The model's signature.
        targets: Outputs that are wanted in shared memory.

    Raises:
        InvalidRequestError: A number is missing or below 1, or an output cannot be classified.
    """
    counts: dict[str, int] = {}
    for output in outputs:
        if CLASSIFICATION not in output.parameters:
            continue
        what = f"model '{signature.model}': output '{output.name}'"
        parameter = output.parameters[CLASSIFICATION]
        kind = parameter.WhichOneof("parameter_choice")
        if kind not in ("int64_param", "uint64_param"):
            raise InvalidRequestError(f"{what}: {CLASSIFICATION} comes as {kind or 'nothing'}, expected int64_param")
        count: int = getattr(parameter, kind)
        if count < 1:
            raise InvalidRequestError(f"{what}: {CLASSIFICATION} is {count}, expected at least 1 class")
        if output.name in targets:
            raise InvalidRequestError(f"{what} has both {CLASSIFICATION} and a place in shared memory; leave one out")
        datatype = signature.output_rules[output.name].datatype
        if datatype.name in ("BOOL", "BYTES"):
            raise InvalidRequestError(
                f"{what} is {datatype.name}, and {CLASSIFICATION} needs numbers; ask for the output as it is"
            )
        counts[output.name] = count
    return counts or None


def classified(
    array: Array, count: int, datatype: Datatype, *, labels: Sequence[str], batched: bool, what: str
) -> Array:
    """Replaces scores by texts.

    Args:
        array: Scores, (B, ...) or (...).
        count: Number of classes wanted; all where there are fewer.
        datatype: Element type of the scores, a number.
        labels: Names of the classes by index; may be too few.
        batched: The model has a batch dimension.
        what: Name of the output, for messages.

    Returns:
        Texts as UTF-8, an object array (B, min(k, N)) or (min(k, N),).

    Raises:
        InvalidRequestError: There are more than MAX_SCORES scores or MAX_TEXTS texts.
    """
    rows = array.shape[0] if batched else 1
    width = math.prod(array.shape[1:] if batched else array.shape)
    kept = min(count, width)
    if width > MAX_SCORES or rows * kept > MAX_TEXTS:
        raise InvalidRequestError(
            f"{what} has shape {list(array.shape)}; {CLASSIFICATION} takes up to {MAX_SCORES} scores a row and gives "
            f"up to {MAX_TEXTS} texts: ask for fewer, or for the output as it is"
        )
    scores = array.reshape(rows, width)
    if datatype.name == "BF16":  # held as bit patterns: the upper half of a float32
        scores = (scores.astype(np.uint32) << 16).view(np.float32)
    # Negation would overflow for the lowest integer; the complement reverses the order of integers of any kind.
    order = np.argsort(-scores if datatype.floating else ~scores, axis=1, kind="stable")[:, :kept]
    texts = np.empty((rows, kept), dtype=object)
    for row, indices in enumerate(order.tolist()):
        best = scores[row, indices].tolist()
        texts[row] = [_text(score, index, labels) for score, index in zip(best, indices, strict=True)]
    return texts if batched else texts[0]


def _text(score: float, index: int, labels: Sequence[str]) -> bytes:
    text = f"{score:.6f}:{index}" if isinstance(score, float) else f"{score}:{index}"
    label = labels[index] if index < len(labels) else ""
    return (f"{text}:{label}" if label else text).encode()

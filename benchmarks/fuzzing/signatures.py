"""Models that requests are checked against: every datatype, with and without a batch dimension."""

from typing import Final

from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.signature import RequestSignature, TensorRule


def _signature(
    model: str, max_batch_size: int, *tensors: tuple[str, str, tuple[int, ...]], allow_non_finite: bool = False
) -> RequestSignature:
    """Make a model whose outputs are its inputs, so that decoded tensors can be encoded again."""
    rules = tuple(TensorRule(name=name, datatype=DATATYPES[kind], dims=dims) for name, kind, dims in tensors)
    return RequestSignature(
        model=model,
        max_batch_size=max_batch_size,
        inputs=rules,
        outputs=rules,
        on_request=frozenset(name for name, _, _ in tensors[1:]),
        allow_non_finite=allow_non_finite,
    )


SIGNATURES: Final = (
    _signature("plain", 4, ("a", "FP32", (2,)), ("b", "INT32", (-1,))),
    _signature("single", 3, ("a", "FP32", (1,))),
    _signature("unbatched", 0, ("a", "FP32", (-1, 2))),
    _signature("scalar", 0, ("a", "FP64", ())),
    _signature("text", 4, ("a", "BYTES", (-1,)), ("b", "BYTES", ())),
    _signature("words", 0, ("a", "BYTES", (2, -1))),
    _signature("halves", 8, ("a", "BF16", (3,)), ("b", "FP16", (-1,))),
    _signature("lenient", 0, ("a", "FP16", (-1,)), ("b", "BF16", (2,)), allow_non_finite=True),
    _signature(
        "mixed",
        2,
        ("a", "BOOL", (3,)),
        ("b", "UINT8", (-1, -1)),
        ("c", "INT16", (1,)),
        ("d", "UINT32", (2,)),
        ("e", "INT64", (-1,)),
        ("f", "UINT64", (1,)),
        ("g", "INT8", ()),
        ("h", "UINT16", (2,)),
    ),
)
"""Models, named by their special feature."""

RULES: Final = (
    QueueRules(),
    QueueRules(default_policy=QueuePolicy(allow_override=True)),
    QueueRules(levels=3, default_level=2, policies={1: QueuePolicy(timeout=0.5), 3: QueuePolicy(max_requests=2)}),
)
"""Queue rules that differ in the meaning of ``priority`` and ``timeout``."""

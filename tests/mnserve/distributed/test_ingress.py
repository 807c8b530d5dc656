"""What a proxy sends for a call that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from mnserve.distributed import ingress


class RecordedContext:
    """Context of a call in a proxy, which records how the call ends."""

    def __init__(self) -> None:
        self.status: Any = 0
        self.words = ""
        self.trailing: tuple[tuple[str, str], ...] = ()
        self.aborted: Any = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def code(self) -> Any:
        return self.status

    def details(self) -> str:
        return self.words

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.trailing

    def set_code(self, code: Any) -> None:
        self.status = code

    def set_details(self, details: str) -> None:
        self.words = details

    def set_trailing_metadata(self, trailing: tuple[tuple[str, str], ...]) -> None:
        self.trailing = trailing

    async def abort(self, *status: Any) -> None:
        self.aborted = status
        raise grpc.aio.AbortError


def handler_of(code: Any, trailing: tuple[tuple[str, str], ...]) -> Any:
    """Handler of a proxy whose calls end so."""

    async def answer(_request: bytes, context: RecordedContext) -> bytes:
        context.status, context.words, context.trailing = code, "words", trailing
        return b"answer"

    return ingress._translated(SimpleNamespace(request_streaming=False, unary_unary=answer))


@pytest.mark.parametrize(
    ("code", "trailing", "sent"),
    [
        (grpc.StatusCode.NOT_FOUND, (("mnserve-status", "NOT_FOUND"),), "NOT_FOUND"),
        (grpc.StatusCode.NOT_FOUND, (), "NOT_FOUND"),
        (grpc.StatusCode.INTERNAL, (), "UNAVAILABLE"),
        (grpc.StatusCode.INTERNAL.value[0], (), "UNAVAILABLE"),
        (grpc.StatusCode.INTERNAL, (("mnserve-status", "INTERNAL"),), "INTERNAL"),
        (4, (), "DEADLINE_EXCEEDED"),
        (99, (), "UNKNOWN"),
    ],
)
async def test_a_status_leaves_without_a_message_before_it(code: Any, trailing: Any, sent: str) -> None:
    context = RecordedContext()
    with pytest.raises(grpc.aio.AbortError):
        await handler_of(code, trailing).unary_unary(b"", context)
    assert context.aborted[0].name == sent
    assert not [key for key, _ in context.aborted[2] if key.startswith("mnserve")]


@pytest.mark.parametrize("code", [0, None, grpc.StatusCode.OK])
async def test_an_answer_is_returned(code: Any) -> None:
    context = RecordedContext()
    assert await handler_of(code, ()).unary_unary(b"", context) == b"answer"
    assert context.aborted is None

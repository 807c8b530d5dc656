"""End of failed calls, where it depends on more than the error."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import grpc
import pytest

from mnserve import failing
from mnserve.errors import DeadlineExceededError, QueueFullError


class Context:
    """Context of a call with this time left, in seconds."""

    def __init__(self, remaining: float | None) -> None:
        self.remaining = remaining
        self.sent: list[grpc.StatusCode] = []

    def time_remaining(self) -> float | None:
        return self.remaining

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any) -> None:
        self.sent.append(code)
        raise RuntimeError("aborted")


async def test_a_call_whose_deadline_has_passed_is_left_to_gRPC() -> None:
    """gRPC cancels the call; a status would reach no caller."""
    context = Context(0.0)
    call = asyncio.create_task(failing.fail(context, DeadlineExceededError("late")))  # type: ignore[arg-type]
    await asyncio.sleep(0.05)
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not context.sent


async def test_a_call_that_gRPC_does_not_end_gets_its_status() -> None:
    context = Context(0.0)
    with pytest.raises(RuntimeError, match="aborted"):
        await failing.fail(context, DeadlineExceededError("late"), grpc_seconds=0.01)  # type: ignore[arg-type]
    assert context.sent == [grpc.StatusCode.DEADLINE_EXCEEDED]


@pytest.mark.parametrize(
    ("error", "remaining"),
    [(DeadlineExceededError("timeout"), None), (DeadlineExceededError("timeout"), 5.0), (QueueFullError("full"), 0.0)],
)
async def test_all_other_calls_get_their_status_at_once(error: Exception, remaining: float) -> None:
    """The server alone knows a time limit of the request itself (``timeout``)."""
    context = Context(remaining)
    with pytest.raises(RuntimeError, match="aborted"):
        await failing.fail(context, error, grpc_seconds=1000)  # type: ignore[arg-type]
    assert len(context.sent) == 1


@pytest.mark.parametrize("name", ["x", "%", "\n", "é", "\ud800", "😀"])
def test_details_fit_into_what_clients_accept_of_metadata(name: str) -> None:
    """8 KiB for all of it, percent-encoded."""
    short = failing.refusal(QueueFullError(f"model '{name}' is full"))
    assert short.details.endswith("' is full")
    details = failing.refusal(QueueFullError(name * 5000)).details
    assert len(details) > 300
    assert 2000 <= len(quote(details, safe="".join(map(chr, range(0x20, 0x7F))).replace("%", ""))) <= 4096


def test_details_are_one_line_that_cannot_steer_a_terminal() -> None:
    name = "a\n\x1b[2J\x9b\u2028\u202e\ud800 größe"
    assert failing.refusal(QueueFullError(name)).details == r"a\n\x1b[2J\x9b\u2028\u202e\ud800 größe"

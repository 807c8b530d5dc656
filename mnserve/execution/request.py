"""Request that waits for a batch, and where its outcome goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.results import InferenceResult

Rank: TypeAlias = tuple[int, bool]
"""Priority level, of which the lowest number goes first; within it late requests go last."""


class Reply(Protocol):
    """Where the outcome of one request goes, once; an ``asyncio.Future`` is one."""

    def done(self) -> bool:
        """True once there is an outcome, or nobody wants one; may be asked in any thread."""
        ...

    def set_result(self, result: InferenceResult, /) -> None:
        """Takes the outputs; called on the event loop, and not once it is done."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Takes an error of ``mnserve.errors``, or any that an engine raised; called like :meth:`set_result`."""
        ...


class _Nobody:
    """In place of the reply of a caller that left."""

    def done(self) -> bool:
        return True

    def set_result(self, result: InferenceResult, /) -> None:
        raise AssertionError("the caller has left")

    def set_exception(self, exception: BaseException, /) -> None:
        raise AssertionError("the caller has left")


_NOBODY = _Nobody()


class WaitingRequest:
    """An admitted request.

    Args:
        number: Number of the arrival, counted from 0.
        work: The decoded request.
        reply: Where its outcome goes.
        rank: Its place among the others.
        bucket: Bucket of the queue; requests of one bucket may share a batch.
        admitted_ns: Time of the admission, on the monotonic clock.
    """

    in_batch = False
    """A batch has it. An engine may read its tensors then, also if it has ended early: its caller left, or its time was
    up."""
    timers: Sequence[asyncio.TimerHandle] = ()
    """Timers of its limits; none where it has no limits."""
    on_unread: Callable[[], object] | None = None
    """Called on the loop once no engine reads the tensors of a request that ended early in a batch; never if its run
    never ends. For owners of memory that is used again; None where nobody asks."""

    def __init__(
        self,
        number: int,
        work: InferenceWork,
        reply: Reply,
        rank: Rank,
        bucket: Any,
        admitted_ns: int,
    ) -> None:
        self.number = number
        self.work = work
        self.reply = reply
        self.rank = rank
        self.bucket = bucket
        self.admitted_ns = admitted_ns

    def fail(self, error: BaseException) -> None:
        """Ends the request with an error, unless it has ended."""
        self.cancel_timers()
        if not self.reply.done():
            self.reply.set_exception(error)

    def forget_caller(self) -> None:
        """Ends the request without an outcome: nobody waits for it."""
        self.cancel_timers()
        self.reply = _NOBODY

    def cancel_timers(self) -> None:
        """Stops the timers of its limits."""
        if self.timers:
            for timer in self.timers:
                timer.cancel()
            self.timers = ()

    def leave_batch(self) -> None:
        """Notes that no engine reads its tensors any more."""
        self.in_batch = False
        if self.on_unread is not None:
            on_unread, self.on_unread = self.on_unread, None
            on_unread()

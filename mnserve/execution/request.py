"""Request that waits for a batch, and where its outcome goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.results import InferenceResult


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


@dataclass(kw_only=True, eq=False, slots=True)
class WaitingRequest:
    """An admitted request.

    Attributes:
        number: Number of the arrival, counted from 0.
        work: The decoded request.
        bucket: Requests of equal buckets may share a batch.
        rank: Priority level, of which the lowest number goes first; within it late requests go last.
        reply: Where its outcome goes.
        admitted_ns: Time of the admission, on the monotonic clock.
        timers: Timers of its limits; none where it has no limits.
        in_batch: A batch has it, and an engine may read its tensors, also after it has ended early: its caller left,
            or its time was up.
        on_unread: Called on the loop once no engine reads the tensors of a request that ended early in a batch; never
            if its run never ends. For owners of memory that is used again; None where nobody asks.
    """

    number: int
    work: InferenceWork
    bucket: Hashable
    rank: tuple[int, bool]
    reply: Reply
    admitted_ns: int
    timers: Iterable[asyncio.TimerHandle] = ()
    in_batch: bool = False
    on_unread: Callable[[], object] | None = None

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

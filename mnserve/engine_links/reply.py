"""Outcome of one request of a link."""

from __future__ import annotations

import asyncio
from typing import Protocol

from mnserve.engine_links.served import Served
from mnserve.execution.request import WaitingRequest
from mnserve.execution.results import InferenceResult


class Outcomes(Protocol):
    """Takes the outcomes of requests."""

    def answer(self, reply: LinkReply, result: InferenceResult) -> None:
        """Takes the outputs of a request."""

    def fail(self, reply: LinkReply, error: BaseException) -> None:
        """Takes the error of a request."""


class LinkReply:
    """Reply of a request: passes its outcome on to the link.

    Args:
        outcomes: The link.
        ticket: Number of the request on it.
        served: Version of the model that it went to.

    Attributes:
        is_done: It has its outcome, or nobody wants one.
        placed: Its inputs lie in the front end's memory.
        request: The request in the queue; None where it is not there.
        task: Brings it to the queue; None once it is there.
    """

    __slots__ = ("_outcomes", "is_done", "placed", "request", "served", "task", "ticket")

    def __init__(self, outcomes: Outcomes, ticket: int, served: Served) -> None:
        self._outcomes = outcomes
        self.ticket = ticket
        self.served = served
        self.is_done = False
        self.placed = False
        self.request: WaitingRequest | None = None
        self.task: asyncio.Task[None] | None = None

    def done(self) -> bool:
        """True once there is an outcome, or nobody wants one."""
        return self.is_done

    def set_result(self, result: InferenceResult, /) -> None:
        """Takes the outputs."""
        self._outcomes.answer(self, result)

    def set_exception(self, exception: BaseException, /) -> None:
        """Takes an error."""
        self._outcomes.fail(self, exception)

    def withdraw(self) -> None:
        """Has nobody work on the request any more."""
        self.is_done = True
        if self.task is not None:
            self.task.cancel()
        elif self.request is not None:
            self.served.withdraw(self.request)

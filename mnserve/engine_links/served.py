"""What a link needs of a served version of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.execution.request import Reply, WaitingRequest


class Served(Protocol):
    """A version of a model with its queue and its kept answers, as :class:`mnserve.models.served.ServedModel` is."""

    def admit(self, work: InferenceWork, limits: RequestLimits, reply: Reply) -> WaitingRequest | None:
        """Queues a request, or answers it at once.

        Returns:
            The request, to withdraw it by; None if it has its answer.

        Raises:
            MnServeError: It is refused.
        """

    def withdraw(self, request: WaitingRequest) -> None:
        """Drops a request whose caller has left; its reply gets nothing any more."""

    async def admit_later(
        self,
        work: InferenceWork,
        limits: RequestLimits,
        reply: Reply,
        on_admitted: Callable[[int], None] | None = None,
    ) -> WaitingRequest | None:
        """Does the same for a request of any size; where ``on_admitted`` is given, it waits for room in the queue."""

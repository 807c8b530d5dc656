"""Request that waits for a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.results import InferenceResult


@dataclass(kw_only=True, eq=False, slots=True)
class WaitingRequest:
    """An admitted request with the future on which its caller waits.

    Attributes:
        number: Number of the arrival, counted from 0.
        work: The decoded request.
        bucket: Requests of equal buckets may share a batch.
        rank: Priority level, of which the lowest number goes first; within it late requests go last.
        future: Future of the result.
        admitted_ns: Time of the admission, on the monotonic clock.
    """

    number: int
    work: InferenceWork
    bucket: Hashable
    rank: tuple[int, bool]
    future: asyncio.Future[InferenceResult]
    admitted_ns: int

"""Engine processes as a front end sees them: which of them are there, and what became of those that ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.execution.results import InferenceResult
from mnserve.remote.admission import OnAdmitted

_VERDICT_SECONDS: Final = 5.0
"""Longest time in which the supervisor tells what an ended engine process was doing."""


class RequestLink(Protocol):
    """Way to an engine process."""

    @property
    def closed(self) -> bool:
        """True once the process has ended, or the link to it has."""

    @property
    def outstanding(self) -> int:
        """Requests that were sent and have no end yet."""

    async def infer(
        self, endpoint: int, work: InferenceWork, limits: RequestLimits, on_admitted: OnAdmitted | None = None
    ) -> InferenceResult:
        """Sends a request, and waits for its outputs.

        Raises:
            EngineLostError: The link ended before the request did.
            StaleEndpointError: The process does not serve that version any more.
        """


@dataclass(frozen=True, eq=False)
class ConnectedEngine:
    """An engine process with a link to it.

    Attributes:
        index: Number of the engine process.
        generation: Counts the processes that had this number.
        link: Way to it.
        verdict: Names of the models that it was running when it ended.
    """

    index: int
    generation: int
    link: RequestLink
    verdict: asyncio.Future[frozenset[str]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RemoteEngines:
    """Engine processes of a server."""

    def __init__(self) -> None:
        self._engines: dict[int, ConnectedEngine] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    def connect(self, index: int, generation: int, link: RequestLink) -> None:
        """Takes in an engine process; one before with the same number has ended."""
        before = self._engines.get(index)
        if before is not None and not before.verdict.done():
            before.verdict.set_result(frozenset())
        self._engines[index] = ConnectedEngine(index, generation, link)
        self.wake()

    @property
    def outstanding(self) -> int:
        """Requests without an end, in all engine processes."""
        return sum(engine.link.outstanding for engine in self._engines.values() if not engine.link.closed)

    def lost(self, index: int, generation: int, suspects: frozenset[str]) -> None:
        """Notes that an engine process has ended.

        Args:
            index: Its number.
            generation: Its generation.
            suspects: Models of which a run was in progress.
        """
        engine = self._engines.get(index)
        if engine is not None and engine.generation == generation and not engine.verdict.done():
            engine.verdict.set_result(suspects)

    def pick(self, places: Mapping[int, tuple[int, int]]) -> ConnectedEngine | None:
        """Picks the engine process with the fewest requests of this front end; None where none is there.

        Args:
            places: Engine process -> generation and number of the version that is wanted.
        """
        best: ConnectedEngine | None = None
        for index, (generation, _) in places.items():
            engine = self._engines.get(index)
            if engine is None or engine.generation != generation or engine.link.closed:
                continue
            if best is None or engine.link.outstanding < best.link.outstanding:
                best = engine
        return best

    async def suspects(self, engine: ConnectedEngine) -> frozenset[str] | None:
        """Tells which models an ended engine process was running; None where nobody knows."""
        try:
            async with asyncio.timeout(_VERDICT_SECONDS):
                return await asyncio.shield(engine.verdict)
        except TimeoutError:
            return None

    def wake(self) -> None:
        """Wakes those that wait for a change of the processes, or of what they serve."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def change(self, seconds: float) -> bool:
        """Waits for a change; False where none came in time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, seconds)):
                    await future
                return True
            return False
        finally:
            self._waiting.discard(future)

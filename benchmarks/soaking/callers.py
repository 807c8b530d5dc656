"""Callers of a server: good requests of many sizes, and all that goes wrong on the side of a caller.

Every call must end with its own rows, or with a status that fits the request.
Shapes: rows float32 [B, WIDTH].
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

from mnserve.protocol import service_pb2 as pb
from soaking.models import FACTORS, MAX_ROWS, WIDTH, expected

Rows = npt.NDArray[np.float32]

# A call that has not ended after this time counts as lost.
LOST_SECONDS = 60.0
_STREAMED = 12


@dataclass
class Tally:
    """Counts of calls.

    Attributes:
        calls: number of calls by kind and ending.
        lost: number of calls that did not end.
        swapped: number of answers with other rows than the request's, or another id.
        unexpected: endings that do not fit the request, with their number.
    """

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost: int = 0
    swapped: int = 0
    unexpected: Counter[str] = field(default_factory=Counter)
    _forgiving_until: float = -math.inf

    def forgive(self, seconds: float) -> None:
        """Let calls end as UNAVAILABLE for a while, since a process of the server is about to be killed."""
        self._forgiving_until = max(self._forgiving_until, time.monotonic() + seconds)

    @property
    def forgiving(self) -> bool:
        """True while a killed process explains that calls are refused."""
        return time.monotonic() < self._forgiving_until

    @property
    def requests(self) -> int:
        """Number of all calls."""
        return self.calls.total()

    @property
    def faults(self) -> int:
        """Number of all faults."""
        return self.lost + self.swapped + self.unexpected.total()


class Caller:
    """Sends one request after the other.

    Args:
        stub: stub of the server.
        tally: counts of calls.
        seed: seed of the choices.
        patient: True never cancels a call, nor sets a deadline.
    """

    def __init__(self, stub: Any, tally: Tally, seed: int, *, patient: bool = False) -> None:
        self._stub, self._tally, self._patient = stub, tally, patient
        self._random, self._numbers = random.Random(seed), np.random.default_rng(seed)
        self._number = seed << 32

    async def run(self, stop: asyncio.Event) -> None:
        """Send requests until ``stop`` is set."""
        kinds = {
            self._good: 60,
            self._hurried: 0 if self._patient else 10,
            self._leaving: 0 if self._patient else 10,
            self._wrong: 8,
            self._unknown: 4,
            self._stream: 4,
            self._asking: 4,
        }
        actions, weights = list(kinds), list(kinds.values())
        while not stop.is_set():
            (action,) = self._random.choices(actions, weights)
            await action()

    def _rows(self, count: int | None = None) -> Rows:
        rows = count or self._random.choice([1, 1, 1, 2, 3, 5, 8, MAX_ROWS])
        return self._numbers.standard_normal((rows, WIDTH), np.float32)

    def _model(self) -> str:
        return self._random.choice(list(FACTORS))

    def _id(self) -> str:
        """Make an id of any length; none for every fourth request."""
        self._number += 1
        return f"{self._number}-{'x' * self._random.randrange(12)}" if self._number % 4 else ""

    async def _good(self) -> None:
        await self._ask("good", self._model(), self._rows(), {"OK"})

    async def _hurried(self) -> None:
        """Send a request with a deadline that may be too short."""
        seconds = self._random.choice([0.0005, 0.002, 0.01])
        await self._ask("hurried", self._model(), self._rows(), {"OK", "DEADLINE_EXCEEDED"}, timeout=seconds)

    async def _leaving(self) -> None:
        """Send a request, and cancel it."""
        await self._ask("leaving", self._model(), self._rows(), {"OK", "CANCELLED"}, leave=self._random.random() / 200)

    async def _wrong(self) -> None:
        """Send a wrong request: more rows than a batch, another width, or another type."""
        name, rows = self._model(), self._rows(1)
        broken = request(name, rows, self._id())
        kind = self._random.randrange(3)
        if kind == 0:
            broken = request(name, self._rows(MAX_ROWS + 1), self._id())
        elif kind == 1:
            broken.inputs[0].shape[1] += 1
        else:
            broken.inputs[0].datatype = "INT64"
        await self._end("wrong", self._stub.ModelInfer(broken, timeout=LOST_SECONDS), {"INVALID_ARGUMENT"}, None)

    async def _unknown(self) -> None:
        await self._ask("unknown", "nothing", self._rows(1), {"NOT_FOUND"})

    async def _asking(self) -> None:
        """Call another method than inference."""
        call = self._stub.ModelStatistics(pb.ModelStatisticsRequest(name=self._model()), timeout=LOST_SECONDS)
        await self._end("asking", call, {"OK"}, None)

    async def _stream(self) -> None:
        """Send several requests over one stream, one of them wrong."""
        name, wrong = self._model(), self._random.randrange(_STREAMED)
        sent = [(self._rows(), self._id()) for _ in range(_STREAMED)]

        async def requests() -> AsyncIterator[pb.ModelInferRequest]:
            for number, (rows, request_id) in enumerate(sent):
                yield request("nothing" if number == wrong else name, rows, request_id)

        ended, details, index = "OK", "", 0
        try:
            async for message in self._stub.ModelStreamInfer(requests(), timeout=LOST_SECONDS):
                if index != wrong and message.error_message and self._tally.forgiving:
                    self._tally.calls["stream", "an answer lost to a kill"] += 1
                elif (index == wrong) != bool(message.error_message):
                    self._tally.unexpected[f"stream: {message.error_message or 'an answer'} in place {index}"] += 1
                elif index != wrong:
                    rows, request_id = sent[index]
                    self._tally.swapped += not _is_answer(message.infer_response, expected(name, rows), request_id)
                index += 1
        except grpc.aio.AioRpcError as error:
            ended, details = error.code().name, error.details() or ""
        self._count("stream", ended, {"OK"}, details)
        if ended == "OK":
            self._tally.lost += _STREAMED - index

    async def _ask(
        self,
        what: str,
        name: str,
        rows: Rows,
        allowed: set[str],
        *,
        timeout: float = LOST_SECONDS,
        leave: float | None = None,
    ) -> None:
        request_id = self._id()
        call = self._stub.ModelInfer(request(name, rows, request_id), timeout=timeout)
        if leave is not None:
            asyncio.get_running_loop().call_later(leave, call.cancel)
        await self._end(what, call, allowed, None if name not in FACTORS else expected(name, rows), request_id)

    async def _end(self, what: str, call: Any, allowed: set[str], answer: Rows | None, request_id: str = "") -> None:
        ended, details = "OK", ""
        try:
            response = await call
        except grpc.aio.AioRpcError as error:
            ended, details = error.code().name, error.details() or ""
        except asyncio.CancelledError:
            if not call.cancelled():
                raise
            ended = "CANCELLED"
        else:
            if answer is not None and not _is_answer(response, answer, request_id):
                self._tally.swapped += 1
        self._count(what, ended, allowed, details)

    def _count(self, what: str, ended: str, allowed: set[str], details: str = "") -> None:
        self._tally.calls[what, ended] += 1
        if ended in allowed or (ended == "UNAVAILABLE" and self._tally.forgiving):
            return
        if ended == "DEADLINE_EXCEEDED":
            self._tally.lost += 1
        else:
            self._tally.unexpected[f"{what}: {ended} {details[:200]}"] += 1


async def reload_models(stub: Any, tally: Tally, seconds: float, stop: asyncio.Event) -> None:
    """Load the models again in turn, one in every interval."""
    names = list(FACTORS)
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            names.append(names.pop(0))
            ended = "OK"
            try:
                await stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name=names[0]), timeout=LOST_SECONDS)
            except grpc.aio.AioRpcError as error:
                ended = error.code().name
                if not (ended == "UNAVAILABLE" and tally.forgiving):
                    tally.unexpected[f"reload: {ended}"] += 1
            tally.calls["reload", ended] += 1


def request(name: str, rows: Rows, request_id: str = "") -> pb.ModelInferRequest:
    """Make a request with raw contents."""
    message = pb.ModelInferRequest(model_name=name, id=request_id)
    message.inputs.add(name="x", datatype="FP32", shape=rows.shape)
    message.raw_input_contents.append(rows.tobytes())
    return message


def _is_answer(response: pb.ModelInferResponse, rows: Rows, request_id: str) -> bool:
    raw = response.raw_output_contents
    return response.id == request_id and len(raw) == 1 and raw[0] == rows.tobytes()

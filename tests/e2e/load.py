"""Callers in a closed loop, for tests of what becomes of their requests when something happens to the server.

Shapes: requests of [B, 4] floats, B from 1 to 8, with a number that no other request has in every row.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

RIGHT = "right"
"""Outcome of a request that got the answer to its own rows."""


def message(model: str, number: float, rows: int = 1) -> Any:
    """A request whose rows hold ``number``."""
    request = pb.ModelInferRequest(model_name=model, id=str(int(number)))
    request.inputs.add(name="x", datatype="FP32", shape=[rows, 4])
    request.raw_input_contents.append(np.full((rows, 4), number, "<f4").tobytes())
    return request


@dataclass
class Load:
    """What callers heard.

    Attributes:
        factor: What the model multiplies by.
        outcomes: How often each happened: RIGHT, or a status with the first words of what it said.
        errors: Every error.
    """

    factor: float
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: list[grpc.aio.AioRpcError] = field(default_factory=list)

    def note(self, response: Any, number: float, rows: int) -> None:
        """One answer."""
        got = np.frombuffer(response.raw_output_contents[0], "<f4")
        same = got.tolist() == [number * self.factor] * (rows * 4) and response.id == str(int(number))
        self.outcomes[RIGHT if same else f"swapped: {got[:1]} for {number}"] += 1

    async def call(self, address: str, model: str, numbers: Sequence[int], stop: asyncio.Event) -> None:
        """Calls until ``stop``, or until the server says that it is stopping, or does not listen any more."""
        async with grpc.aio.insecure_channel(address, options=(("grpc.enable_retries", 0),)) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for turn in itertools.count():
                if stop.is_set():
                    return
                number, rows = numbers[turn % len(numbers)], 1 + turn % 8
                try:
                    self.note(await stub.ModelInfer(message(model, number, rows)), number, rows)
                except grpc.aio.AioRpcError as error:
                    self.outcomes[error.code().name] += 1
                    self.errors.append(error)
                    details = error.details() or ""
                    if error.code() is grpc.StatusCode.UNAVAILABLE and ("connect" in details or "stopping" in details):
                        return  # to another server
                    await asyncio.sleep(0.005)


async def run_load(address: str, model: str, factor: float, callers: int, stop: asyncio.Event) -> Load:
    """``callers`` callers at a time until ``stop``; returns what they heard."""
    load = Load(factor)
    tasks = [
        load.call(address, model, range(1000 * caller + 1, 1000 * caller + 900), stop) for caller in range(callers)
    ]
    await asyncio.gather(*tasks)
    return load

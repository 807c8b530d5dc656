"""Load of callers that ask again as soon as they are answered, from a process of its own.

    python -m replicas.load TARGET APPLICATION CALLERS SECONDS < REQUEST

Prints one line of JSON: answers a second, and the median and the 99th percentile of the time until one.
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass

import grpc
import numpy as np

from mnserve.client.balancing import BALANCED_OPTIONS

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_WARM_UP = 0.2
"""Part of the time that is not counted."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What callers saw.

    Attributes:
        rate: answers a second.
        p50: median time until an answer, in milliseconds.
        p99: the same that one in a hundred exceeds.
    """

    rate: float
    p50: float
    p99: float


def measure(target: str, message: bytes, *, application: str, callers: int, seconds: float) -> Measured:
    """Load servers from another process.

    Args:
        target: target of gRPC.
        message: request.
        application: application behind the proxies of Ray Serve; others ignore it.
        callers: calls at a time.
        seconds: duration.

    Raises:
        SystemExit: not everything was answered well.
    """
    command = [sys.executable, "-m", "replicas.load", target, application, str(callers), str(seconds)]
    done = subprocess.run(command, input=message, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"replicas: the load on {target} failed: {done.stderr.decode()[-400:]}")
    return Measured(**json.loads(done.stdout))


async def _load(target: str, message: bytes, application: str, callers: int, seconds: float) -> Measured:
    ended: list[tuple[float, float]] = []
    begin = time.perf_counter()

    async def call_on(channel: grpc.aio.Channel) -> None:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
        while (started := time.perf_counter()) < begin + seconds:
            await call(message, metadata=(("application", application),), timeout=60)
            ended.append((time.perf_counter(), time.perf_counter() - started))

    async with grpc.aio.insecure_channel(target, options=BALANCED_OPTIONS) as channel:
        await asyncio.gather(*(call_on(channel) for _ in range(callers)))
    counted = np.array([duration for end, duration in ended if end >= begin + _WARM_UP * seconds])
    p50, p99 = np.percentile(counted, (50, 99)) * 1e3
    return Measured(rate=len(counted) / ((1 - _WARM_UP) * seconds), p50=float(p50), p99=float(p99))


if __name__ == "__main__":
    words = sys.argv[1:]
    measured = asyncio.run(_load(words[0], sys.stdin.buffer.read(), words[1], int(words[2]), float(words[3])))
    print(json.dumps(vars(measured)))

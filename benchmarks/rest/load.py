"""Load over HTTP/1.1 and over gRPC by h2load: callers who ask again as soon as they are answered."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

_STREAMS: Final = 16
"""Calls at a time on one connection of gRPC; one of HTTP/1.1 has one."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to ask a server.

    Attributes:
        name: Name in the table.
        url: Address of the call.
        body: File of the body.
        headers: Headers of the request, such as ``content-type: application/json``.
        grpc: It is gRPC, and not HTTP/1.1.
    """

    name: str
    url: str
    body: Path
    headers: tuple[str, ...]
    grpc: bool = False


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What callers saw: answers a second, and milliseconds until an answer, the median and the 99th percentile."""

    rate: float
    p50: float
    p99: float


def load(way: Way, callers: int, seconds: float) -> Measured:
    """Load a server on this machine; the first fifth of the time is not counted.

    Raises:
        SystemExit: nothing was answered, or not everything well.
    """
    log = way.body.with_suffix(".log")
    log.unlink(missing_ok=True)
    connections = max(1, callers // _STREAMS) if way.grpc else callers
    command = ["h2load", "-t", "1", "-c", str(connections), "-m", str(max(1, callers // connections))]
    command += ["-D", f"{round(seconds * 1000)}ms", "-d", str(way.body), "--log-file", str(log)]
    command += [*([] if way.grpc else ["--h1"]), *(word for header in way.headers for word in ("-H", header)), way.url]
    subprocess.run(command, capture_output=True, check=True)
    calls = np.loadtxt(log, dtype=np.int64, ndmin=2)  # start, status, duration; in microseconds
    if not len(calls) or (calls[:, 1] != 200).any():
        raise SystemExit(f"rest: of {len(calls)} calls to {way.url} not all were answered")
    ends = calls[:, 0] + calls[:, 2]
    counted = ends >= ends.min() + seconds * 1e6 / 5
    if counted.sum() < 2:
        raise SystemExit(f"rest: {way.url} stopped to answer after {len(calls)} calls; is the machine busy?")
    times = calls[counted, 2] / 1e3
    span = (ends.max() - ends[counted].min()) / 1e6
    return Measured(rate=float(counted.sum() / span), p50=float(np.median(times)), p99=float(np.percentile(times, 99)))

"""Load of callers who ask again as soon as they are answered, by h2load."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

_METHOD: Final = "inference.GRPCInferenceService/ModelInfer"
_STREAMS: Final = 16
"""Calls at a time on one connection."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What callers saw.

    Attributes:
        calls: Number of calls that ended.
        rate: Answers a second.
        p50: Median time until an answer, in milliseconds.
        p99: The same that one in a hundred exceeds.
    """

    calls: int
    rate: float
    p50: float
    p99: float


def write_body(file: Path, message: bytes) -> None:
    """Write a request as it goes through a connection."""
    file.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)


def load(port: int, body: Path, callers: int, seconds: float) -> Measured:
    """Load a server on this machine.

    Args:
        port: port of its gRPC service.
        body: file of :func:`write_body`.
        callers: calls at a time.
        seconds: duration; the first fifth is not counted.

    Raises:
        SystemExit: nothing was answered, or not everything well.
    """
    log = body.with_suffix(".log")
    log.unlink(missing_ok=True)
    connections = max(1, callers // _STREAMS)
    command = ["h2load", "-t", "1", "-c", str(connections), "-m", str(max(1, callers // connections))]
    command += ["-D", f"{round(seconds * 1000)}ms", "-d", str(body), "--log-file", str(log)]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers", f"http://127.0.0.1:{port}/{_METHOD}"]
    subprocess.run(command, capture_output=True, check=True)
    calls = np.loadtxt(log, dtype=np.int64, ndmin=2)  # start, status, duration; in microseconds
    if not len(calls) or (calls[:, 1] != 200).any():
        raise SystemExit(f"waiting: of {len(calls)} calls on port {port} not all were answered")
    ends = calls[:, 0] + calls[:, 2]
    counted = ends >= ends.min() + seconds * 1e6 / 5
    if counted.sum() < 2:
        raise SystemExit(f"waiting: port {port} stopped to answer after {len(calls)} calls; is the machine busy?")
    times = calls[counted, 2] / 1e3
    span = (ends.max() - ends[counted].min()) / 1e6
    return Measured(
        calls=len(calls),
        rate=float(counted.sum() / span),
        p50=float(np.median(times)),
        p99=float(np.percentile(times, 99)),
    )

"""Load by h2load: callers on connections, each asking again once it is answered."""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from capacity_model.serving import MODEL, Cpu, Server
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.protocol import service_pb2 as pb

_METHOD = "inference.GRPCInferenceService/ModelInfer"
_CONNECTIONS = 32
"""Most connections: enough that the kernel spreads them over front ends by and large evenly."""
WARM_UP = 0.4
"""Seconds at the beginning of a load in which nothing counts."""
_SETTLING = 1.2
"""Seconds after which front ends have noticed that connections are gone. New ones go to who has the fewest."""


class LoadError(Exception):
    """A load was not answered as it should be."""


@dataclass(frozen=True)
class Load:
    """What a load of some seconds gave.

    Args:
        rate: answered calls a second.
        p50, p99: seconds from sending a call to having its answer.
        rows: rows of a run in the mean.
        client: CPU of the load generator for a call, in seconds.
        cpu: CPU of the server's threads for a call, in seconds.
        runs: runs for a call.
        spread: callers on each front end.
        others: cores that other work on the machine took meanwhile.
    """

    rate: float
    p50: float
    p99: float
    rows: float
    client: float
    cpu: Cpu
    runs: float
    spread: tuple[int, ...]
    others: float

    @property
    def cpu_seconds(self) -> float:
        """CPU of the server and the load generator for a call, in seconds."""
        cpu = self.cpu
        return self.client + cpu.transport + cpu.front_end + cpu.engine + cpu.runner


def write_body(model: Path, rows: int, file: Path) -> None:
    """Write the request of a model with one input of floats, framed as gRPC sends it."""
    (argument,) = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()
    shape = [rows, *(size if isinstance(size, int) else 1 for size in argument.shape[1:])]
    array = np.random.default_rng(0).standard_normal(shape, np.float32)
    message = pb.ModelInferRequest(model_name=MODEL)
    message.inputs.add(name=argument.name, datatype="FP32", shape=shape)
    message.raw_input_contents.append(array.tobytes())
    data = message.SerializeToString()
    file.write_bytes(b"\0" + len(data).to_bytes(4, "big") + data)


def load(
    server: Server,
    body: Path,
    callers: int,
    seconds: float,
    *,
    rows: int = 1,
    threads: int = 1,
    warm_up: float = WARM_UP,
) -> Load:
    """Load a server with callers.

    Args:
        server: a server that runs.
        body: file of :func:`write_body`.
        callers: calls in work at a time.
        seconds: duration, beside a moment of warm-up.
        rows: rows of a call.
        threads: of the load generator.
        warm_up: seconds at the beginning in which nothing counts.

    Raises:
        LoadError: calls failed.
    """
    connections = min(callers, _CONNECTIONS)
    streams = math.ceil(callers / connections)
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [
            "h2load",
            "-t",
            str(min(threads, connections)),
            "-c",
            str(connections),
            "-m",
            str(streams),
            "-d",
            str(body),
        ]
        command += ["-H", "content-type: application/grpc", "-H", "te: trailers", "--log-file", str(log)]
        command += ["-D", f"{round((seconds + warm_up) * 1000)}ms", f"http://{server.address}/{_METHOD}"]
        runs = server.runs()
        if len(server.front_ends) > 1:
            time.sleep(_SETTLING)
        cpu, busy, began = server.cpu(), _busy_seconds(), time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as client:
            time.sleep(warm_up)
            spread = [count * streams for count in server.connections()]
            assert client.stdout is not None
            printed = client.stdout.read()
            _, _, usage = os.wait4(client.pid, 0)
            client.returncode = 0
        after, later, busy = server.cpu(), server.runs(), _busy_seconds() - busy
        lasted = time.perf_counter() - began
        calls = [tuple(map(int, line.split("\t"))) for line in log.read_text().splitlines()]
    done = re.search(r"(\d+) done", printed)
    count = sum(later.counts.values()) - sum(runs.counts.values())
    answered = sum(size * (later.counts[size] - runs.counts.get(size, 0)) for size in later.counts) / rows
    if done is None or not calls or answered < 0.98 * int(done[1]) or any(status != 200 for _, status, _ in calls):
        raise LoadError(
            f"the server with {len(server.front_ends)} front ends answered {answered:,.0f} of {len(calls):,} calls of "
            f"{callers} callers with {rows} rows each; h2load says: {' '.join(printed.split())}"
        )
    begin = min(start for start, _, _ in calls) + warm_up * 1e6
    times = sorted(took / 1e6 for start, _, took in calls if start + took >= begin)
    used = [getattr(after, name) - getattr(cpu, name) for name in vars(after)]
    client_seconds = usage.ru_utime + usage.ru_stime
    return Load(
        rate=len(times) / seconds,
        p50=times[len(times) // 2],
        p99=times[min(len(times) - 1, int(len(times) * 0.99))],
        rows=answered * rows / count,
        client=client_seconds / len(calls),
        cpu=Cpu(*(seconds / len(calls) for seconds in used)),
        runs=count / len(calls),
        spread=tuple(spread),
        others=max(0.0, busy - sum(used) - client_seconds) / lasted,
    )


def _busy_seconds() -> float:
    """CPU time of everything on the machine so far, in seconds."""
    user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")

"""A real server under measurement: its processes, their threads' CPU, and its statistics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from soaking.memory import children

from mnserve.bench.server_process import server_process
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol import service_pb2_grpc as services

MODEL = "m"
"""Name that the model is served as."""
_FRONT_END, _ENGINE = "front_end_process", "engine_process"
"""Words in the command lines of the processes of a server."""


@dataclass(frozen=True)
class Cpu:
    """CPU time so far by kind of thread, in seconds: event loops, and gRPC's or the engine's threads beside them."""

    transport: float
    front_end: float
    engine: float
    runner: float


@dataclass(frozen=True)
class RunStatistics:
    """Runs so far by rows: how many, how long all of them took, and how long the engine computed, in seconds."""

    counts: dict[int, int]
    seconds: dict[int, float]
    computing: dict[int, float]


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Args:
        address: HOST:PORT of gRPC.
        front_ends: process numbers; empty where one process does everything.
        engine: process number of the engine process, or of the one process.
    """

    address: str
    front_ends: tuple[int, ...]
    engine: int

    def cpu(self) -> Cpu:
        """Read the CPU time of the threads."""
        engine, runner = _loop_and_others(self.engine)
        loops, transports = zip(*map(_loop_and_others, self.front_ends), strict=True) if self.front_ends else ((), ())
        return Cpu(sum(transports), sum(loops), engine, runner)

    def connections(self) -> list[int]:
        """Count the connections of each front end."""
        port = int(self.address.rsplit(":", 1)[1])
        open_ = set()
        tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
        for line in [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]:
            fields = line.split()
            if fields[3] == "01" and int(fields[1].split(":")[1], 16) == port:
                open_.add(f"socket:[{fields[9]}]")
        return [len(open_ & _files(pid)) for pid in self.front_ends]

    def runs(self) -> RunStatistics:
        """Ask for the runs of the model so far."""
        with grpc.insecure_channel(self.address) as channel:
            stub = services.GRPCInferenceServiceStub(channel)
            (statistics,) = stub.ModelStatistics(pb.ModelStatisticsRequest(name=MODEL)).model_stats
        sizes = {int(item.batch_size): item for item in statistics.batch_stats}
        return RunStatistics(
            {rows: int(item.compute_infer.count) for rows, item in sizes.items()},
            {
                rows: (item.compute_input.ns + item.compute_infer.ns + item.compute_output.ns) / 1e9
                for rows, item in sizes.items()
            },
            {rows: item.compute_infer.ns / 1e9 for rows, item in sizes.items()},
        )


def _loop_and_others(pid: int) -> tuple[float, float]:
    """Read the CPU time of a process: of its first thread, and of all others."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            times[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except FileNotFoundError:  # the thread has ended meanwhile
            continue
    return times[pid], sum(times.values()) - times[pid]


def _files(pid: int) -> set[str]:
    found = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(os.readlink(file))
        except FileNotFoundError:
            continue
    return found


def make_repository(folder: Path, model: Path, max_batch: int, instances: int) -> None:
    """Write a repository with one ONNX file in it."""
    version = folder / MODEL / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").symlink_to(model.resolve())
    config = f"max_batch_size: {max_batch}\n"
    if instances > 1:
        config += f"instance_group {{ count: {instances} }}\n"
    (folder / MODEL / "config.pbtxt").write_text(config)


@contextmanager
def running(repository: Path, front_ends: int, options: Sequence[str]) -> Iterator[Server]:
    """Run `mnserve serve` with so many front ends, and one thread an engine, for the duration of the block.

    Raises:
        BenchError: it does not come up.
    """
    before = set(children(os.getpid()))
    with server_process(repository, ["--front-ends", str(front_ends), "--intra-op-threads", "1", *options]) as address:
        started = {pid: _command(pid) for pid in children(os.getpid()) if pid not in before}
        found = tuple(pid for pid, command in started.items() if _FRONT_END in command)
        engines = [pid for pid, command in started.items() if _ENGINE in command] or list(started)[:1]
        yield Server(address, found, engines[0])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""

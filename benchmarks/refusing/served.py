"""Server process of a measurement, with its memory, and a caller of small requests beside the measurement."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from soaking.memory import children, resident_bytes
from soaking.models import WIDTH, write_repository

from mnserve.bench.server_process import server_process
from mnserve.protocol import service_pb2 as pb
from refusing.messages import tensor

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
MEBIBYTE = 2**20
_SETTLING = 2.0
_PAUSE = 0.005
CHANNEL = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
"""Options of every channel: a connection of its own, and no limit at the caller."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number.

    Attributes:
        what: name of the measurement.
        value: the number.
        unit: its unit.
        bound: largest value that keeps the promise.
        note: statuses, or whatever else belongs to it.
    """

    what: str
    value: float
    unit: str
    bound: float
    note: str = ""

    @property
    def kept(self) -> bool:
        """Tell whether the bound is kept."""
        return self.value <= self.bound


@dataclass(frozen=True)
class Served:
    """A server that runs.

    Attributes:
        address: HOST:PORT of gRPC.
        pids: its processes.
    """

    address: str
    pids: Sequence[int]

    def resident(self) -> float:
        """Return the resident memory in MiB, once it has settled."""
        time.sleep(_SETTLING)
        return resident_bytes(self.pids) / MEBIBYTE


@contextmanager
def served(*words: str) -> Iterator[Served]:
    """Run a server of small models, and one that takes rows of any width, which has answered a few requests.

    Args:
        words: further words for `mnserve serve`.
    """
    with TemporaryDirectory() as folder:
        write_repository(Path(folder))
        _write_wide(Path(folder))
        before = set(children(os.getpid()))
        with server_process(Path(folder), ["--log-level", "error", "--intra-op-threads", "1", *words]) as address:
            server = Served(address, [pid for pid in children(os.getpid()) if pid not in before])
            send(address, INFER, small_request().SerializeToString(), 100)
            yield server


def _write_wide(repository: Path) -> None:
    """Write the model ``wide``, which doubles x [1, any width]."""
    shape: list[str | int | None] = [1, "width"]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.array(2, np.float32), "factor")],
    )
    version = repository / "wide" / "1"
    version.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, str(version / "model.onnx"))


def small_request() -> pb.ModelInferRequest:
    """Make a request that is answered."""
    return tensor("twice", bytes(4 * WIDTH))


def send(address: str, method: str, message: bytes, count: int) -> Counter[str]:
    """Send a message again and again, each time after the answer, and count the statuses."""
    statuses: Counter[str] = Counter()
    with grpc.insecure_channel(address, options=CHANNEL) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        for _ in range(count):
            try:
                call(message, timeout=120)
                statuses["OK"] += 1
            except grpc.RpcError as error:
                statuses[error.code().name] += 1
    return statuses


class SmallCaller:
    """Calls a small model all the time, in a thread, and keeps the longest wait.

    Args:
        address: HOST:PORT of gRPC.
    """

    def __init__(self, address: str) -> None:
        self.longest = 0.0
        """Seconds."""
        self.statuses: Counter[str] = Counter()
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "SmallCaller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        message = small_request().SerializeToString()
        with grpc.insecure_channel(self._address, options=CHANNEL) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(INFER)
            while not self._stop.is_set():
                started = time.monotonic()
                try:
                    call(message, timeout=60)
                    self.statuses["OK"] += 1
                except grpc.RpcError as error:
                    self.statuses[error.code().name] += 1
                self.longest = max(self.longest, time.monotonic() - started)
                time.sleep(_PAUSE)


def counted(statuses: Counter[str]) -> str:
    """Write numbers of calls by status."""
    return ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))

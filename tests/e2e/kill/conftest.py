"""Load for servers that are about to be hurt: callers who check that every answer is their own."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
_IN_FLIGHT = 4
"""Requests of one stream that wait for answers at a time."""


def make_request(value: float, model: str = "double") -> Any:
    """One row of four equal numbers, which is also the id."""
    message = service_pb2.ModelInferRequest(model_name=model, id=str(value))
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    message.outputs.add(name="y")
    message.raw_input_contents.append(np.full((1, 4), value, "<f4").tobytes())
    return message


class ClosedLoop:
    """Callers that ask again as soon as they are answered, until somebody refuses them.

    Args:
        address: Of the server.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._threads: list[threading.Thread] = []
        self.right = 0
        """Answers with the caller's own numbers."""
        self.wrong: list[str] = []
        """Answers with anything else."""
        self.refusals: list[tuple[str, str]] = []
        """Codes and details of what ended the callers; a message within a stream has the code STREAM."""

    def start(self, callers: int, *, model: str = "double", factor: float = 2.0, streams: bool = False) -> None:
        """More callers for a model that multiplies by ``factor``, each with a connection of its own."""
        work = self._stream if streams else self._ask
        for _ in range(callers):
            number = len(self._threads)
            self._threads.append(threading.Thread(target=work, args=(number, model, factor), daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Lets every caller end after its next answer."""
        self._enough.set()
        self.join()

    def join(self) -> None:
        """Until every caller has ended."""
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a caller waits for ever"

    def _numbers(self, caller: int) -> Iterator[float]:
        # Whole numbers that float32 holds exactly, and that no other caller has.
        for number in itertools.count():
            if self._enough.is_set():
                return
            yield caller * 100_000.0 + number

    def _ask(self, caller: int, model: str, factor: float) -> None:
        with grpc.insecure_channel(self._address, options=_OWN_CONNECTION) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for value in self._numbers(caller):
                try:
                    response = stub.ModelInfer(make_request(value, model), timeout=60)
                except grpc.RpcError as error:
                    self._refused(error)
                    return
                self._check(response, value, factor)

    def _stream(self, caller: int, model: str, factor: float) -> None:
        requests: queue.Queue[Any] = queue.Queue()
        numbers = self._numbers(caller)
        sent = [next(numbers) for _ in range(_IN_FLIGHT)]
        for value in sent:
            requests.put(make_request(value, model))
        with grpc.insecure_channel(self._address, options=_OWN_CONNECTION) as channel:
            call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(requests.get, None))
            try:
                for answer in call:
                    value = sent.pop(0)
                    if answer.error_message:
                        self.refusals.append(("STREAM", answer.error_message))
                    else:
                        self._check(answer.infer_response, value, factor)
                    following = next(numbers, None)
                    if following is not None:
                        sent.append(following)
                    requests.put(None if following is None else make_request(following, model))
            except grpc.RpcError as error:
                self._refused(error)
            finally:
                requests.put(None)

    def _refused(self, error: Any) -> None:
        self.refusals.append((error.code().name, error.details()))

    def _check(self, response: Any, value: float, factor: float) -> None:
        found = np.frombuffer(response.raw_output_contents[0], "<f4").tolist()
        with self._lock:
            if response.id == str(value) and found == pytest.approx([factor * value] * 4):
                self.right += 1
            else:
                self.wrong.append(f"{value} of {response.id}: {found}")


@pytest.fixture
def closed_loop() -> Iterator[Callable[[str], ClosedLoop]]:
    """Makes a :class:`ClosedLoop`; its callers end with the test."""
    started: list[ClosedLoop] = []

    def make(address: str) -> ClosedLoop:
        started.append(ClosedLoop(address))
        return started[-1]

    yield make
    for loop in started:
        loop.stop()


@pytest.fixture
def root(write_models: Callable[[Path], None], tmp_path: Path) -> Path:
    """A repository with a model for each thing that a server can meet."""
    folder = tmp_path / "models"
    write_models(folder)
    return folder


@pytest.fixture(scope="session")
def request_for() -> Callable[..., Any]:
    """``request_for(value, model)``: one row of four equal numbers."""
    return make_request

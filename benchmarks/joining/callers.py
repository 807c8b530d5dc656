"""Callers that send requests of mixed row counts at once, and compare each answer with ONNX Runtime alone."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tritonclient.grpc as triton
from onnx_suite.arrays import difference
from onnx_suite.raw import RawSession
from onnx_suite.served import Tensors, as_tensors, output_arrays
from tritonclient.utils import InferenceServerException

from joining.models import Example

Array = np.ndarray[Any, Any]

_REQUESTS: Final = 64
_MOST_ROWS: Final = 4
_TOLERANCE: Final = 1e-5
"""Relative and absolute difference that joined rows may have: a matrix product rounds by the number of rows."""
_TIMEOUT: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """Number of callers that call at once, and of calls of each."""

    callers: int
    calls: int


@dataclass(frozen=True, kw_only=True)
class _Request:
    tensors: Tensors
    answers: Sequence[Array]


def call_at_once(address: str, name: str, example: Example, load: Load, seed: int = 0) -> Counter[str]:
    """Call one model from several threads; returns the number of calls by outcome: "right", "wrong" or an error."""
    random = np.random.default_rng(seed)
    session = RawSession(example.model())
    requests = []
    for number in range(_REQUESTS):
        inputs = example.inputs(random, 1 + number % _MOST_ROWS)
        answers = session.run([inputs[tensor.name] for tensor in session.inputs])
        requests.append(_Request(tensors=as_tensors(inputs), answers=answers))
    outputs = [tensor.name for tensor in session.outputs]
    outcomes: Counter[str] = Counter()
    ready = threading.Barrier(load.callers)

    def call(number: int) -> None:
        found: Counter[str] = Counter()
        order = np.random.default_rng([seed, number]).integers(0, _REQUESTS, load.calls)
        with triton.InferenceServerClient(address) as client:
            ready.wait()
            for index in order:
                found[_outcome(client, name, requests[index], outputs)] += 1
        outcomes.update(found)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(load.callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _outcome(client: triton.InferenceServerClient, name: str, request: _Request, outputs: Sequence[str]) -> str:
    try:
        answer = client.infer(name, request.tensors, client_timeout=_TIMEOUT)
        arrays = output_arrays(answer, outputs)
    except InferenceServerException as error:
        return str(error.message())
    return "right" if all(map(_close, arrays, request.answers)) else "wrong"


def _close(found: Array, expected: Array) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype or found.dtype.kind != "f":
        return difference([found], [expected]) is None
    return bool(np.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))

"""Engine without a model file, for tests: a function with a gate, a delay and a record of calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mnserve.engines.base import TensorSpec
from mnserve.errors import EngineRunError

Array = np.ndarray[Any, Any]


class FakeEngine:
    """Computes ``function(feeds)``; by default output ``y`` is input ``x`` times two.

    Args:
        inputs: Input specs, batch included.
        outputs: Output specs, batch included.
        function: Feeds -> outputs by name. Raise to make a batch fail.
        seconds: Duration of each run.
        gate: Each run waits until it is set; None runs at once.
    """

    def __init__(
        self,
        *,
        inputs: Sequence[TensorSpec] = (TensorSpec(name="x", datatype="FP32", shape=(-1, -1)),),
        outputs: Sequence[TensorSpec] = (TensorSpec(name="y", datatype="FP32", shape=(-1, -1)),),
        function: Callable[[Mapping[str, Array]], Mapping[str, Array]] | None = None,
        seconds: float = 0.0,
        gate: threading.Event | None = None,
    ) -> None:
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._function = function if function is not None else _double
        self._seconds = seconds
        self._gate = gate
        self.started = threading.Event()
        """Set once a run has started."""
        self.calls: list[dict[str, Array]] = []
        """The feeds of every run so far."""
        self.closed = False
        self.trimmed = False

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        return {}

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        if self.closed:
            raise EngineRunError("the engine was used after it was closed")
        self.calls.append(dict(feeds))
        self.started.set()
        if self._gate is not None:
            self._gate.wait()
        if self._seconds:
            time.sleep(self._seconds)
        result = self._function(feeds)
        return [result[name] for name in outputs]

    def trim(self) -> None:
        self.trimmed = True

    def close(self) -> None:
        self.closed = True


def _double(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": feeds["x"] * 2}

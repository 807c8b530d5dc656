"""A model in two files: the smaller one runs wherever it gives all that is wanted."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from mnserve.engines.base import TensorSpec
from mnserve.engines.core_first import CoreFirstEngine
from mnserve.errors import EngineLoadError

X = TensorSpec(name="x", datatype="FP32", shape=(-1, 2))
Y, Z = (TensorSpec(name=name, datatype="FP32", shape=(-1, 2)) for name in "yz")


class Part:
    """Remembers that it ran."""

    metadata: Mapping[str, str] = {"a": "b"}

    def __init__(self, outputs: tuple[TensorSpec, ...], inputs: tuple[TensorSpec, ...] = (X,)) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.runs: list[tuple[str, ...]] = []
        self.closed = False

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
        self.runs.append(tuple(outputs))
        return [feeds["x"] for _ in outputs]

    def close(self) -> None:
        self.closed = True


def test_the_smaller_part_runs_where_it_is_enough() -> None:
    whole, core = Part((Y, Z)), Part((Y,))
    engine = CoreFirstEngine(whole, core)
    feeds = {"x": np.zeros((1, 2), np.float32)}
    for wanted in (["y"], ["z"], ["y", "z"], ["y"]):
        assert len(engine.run(feeds, wanted)) == len(wanted)
    assert core.runs == [("y",), ("y",)]
    assert whole.runs == [("z",), ("y", "z")]
    assert (engine.inputs, engine.outputs, engine.metadata) == ((X,), (Y, Z), {"a": "b"})
    engine.close()
    assert whole.closed
    assert core.closed


@pytest.mark.parametrize("core", [Part((Z,)), Part((Y,), inputs=(Z,))])
def test_parts_that_do_not_belong_together_are_refused(core: Part) -> None:
    with pytest.raises(EngineLoadError, match=r"core\.onnx does not take and give"):
        CoreFirstEngine(Part((Y,)), core)

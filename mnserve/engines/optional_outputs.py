"""Model in two files: one computes every output, the other only the default outputs.

ONNX Runtime always computes the whole graph. A model that can explain its answers is therefore published with a second
file without the explanation, which runs the batches that need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mnserve.engines.base import Engine, TensorSpec
from mnserve.errors import EngineLoadError

CPU_NAME = "cpu.onnx"
"""File name of the variant for CPUs, beside the whole model and without its explanation."""
CORE_NAME = "core.onnx"
"""File name of the model without its explanation, beside the whole model."""


class CoreFirstEngine:
    """Runs the smaller model wherever it has all requested outputs.

    Args:
        whole: Engine with every output.
        core: Engine with the same inputs and some of the outputs.

    Raises:
        EngineLoadError: The two do not take the same inputs, or the core has an output of its own.
    """

    def __init__(self, whole: Engine, core: Engine) -> None:
        if core.inputs != whole.inputs or not set(core.outputs) <= set(whole.outputs):
            raise EngineLoadError(
                f"{CPU_NAME} or {CORE_NAME} does not take and give what the model beside it does; export it again"
            )
        self._whole = whole
        self._core = core
        self._core_names = frozenset(spec.name for spec in core.outputs)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in the model's order."""
        return self._whole.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Every output, in the whole model's order."""
        return self._whole.outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the whole model."""
        return self._whole.metadata

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]], outputs: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        """See :meth:`mnserve.engines.base.Engine.run`."""
        engine = self._core if self._core_names.issuperset(outputs) else self._whole
        return engine.run(feeds, outputs)

    def trim(self) -> None:
        """See :meth:`mnserve.engines.base.Engine.trim`."""
        self._whole.trim()
        self._core.trim()

    def close(self) -> None:
        """Frees both engines."""
        self._whole.close()
        self._core.close()

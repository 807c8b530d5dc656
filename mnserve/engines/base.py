"""Interface between the server and the runtime of a model.

Shapes are those of the model file: with the batch dimension where the model has one, -1 for a size that may vary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from mnserve.engines.graph_options import check_graph_options
from mnserve.engines.providers import ProviderOption
from mnserve.engines.session_settings import SessionSettings
from mnserve.errors import SettingsError

MAX_THREADS: Final = 1024
"""Most threads of an engine: beyond any machine, and still started quickly."""


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """Name, type and shape of one input or output of an engine.

    Attributes:
        name: Name in the model file.
        datatype: Element type under its protocol name (``FP32``, ``UINT8``, ...).
        shape: Size of each dimension, batch included; -1 for any size. Empty for a scalar, and for a tensor whose file
            declares no shape: ONNX Runtime does not tell them apart, and takes every shape for both.
        axes: Name of each dimension in the model file, empty where it has none; dimensions of one name have one size.
            May end early, or be left out.
        optional: An input with a default in the model file, which a request may replace.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    axes: tuple[str, ...] = field(default=(), compare=False)
    optional: bool = False

    @property
    def axis(self) -> str:
        """Name of the first dimension; empty where it has none."""
        return self.axes[0] if self.axes else ""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Set-up of an engine.

    Attributes:
        providers: Execution providers, best first, under ONNX Runtime's names.
        provider_options: Options of these providers, over the defaults.
        intra_op_threads: Threads inside one operator, at most MAX_THREADS; 0 takes the CPUs this process may use.
        inter_op_threads: Threads across operators, at most MAX_THREADS; 1 runs them one after the other, more run
            branches of the graph side by side.
        allow_fallback: Serve on fewer providers than asked for instead of failing.
        cuda_graph_batches: Batch sizes to capture as CUDA graphs when a model is loaded; smaller batches are padded to
            the next of them, larger ones run without a graph. CUDA has to be the first provider.
        global_thread_pool: Share the threads of all engines of this process, ``intra_op_threads`` in all. The first
            engine decides for the whole process.
        session: Memory and optimisation of a session.
        device: GPU of this process, as CUDA counts, where a server has a process for each; None elsewhere.
        devices: All GPUs of that server.
    """

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    provider_options: tuple[ProviderOption, ...] = ()
    intra_op_threads: int = 0
    inter_op_threads: int = 1
    allow_fallback: bool = False
    cuda_graph_batches: tuple[int, ...] = ()
    global_thread_pool: bool = False
    session: SessionSettings = field(default_factory=SessionSettings)
    device: int | None = None
    devices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.providers:
            raise SettingsError("providers is empty; name at least one, such as CPUExecutionProvider")
        for option in self.provider_options:
            if option.provider == "CPUExecutionProvider":
                raise SettingsError(
                    f"there is an option {option.key} for {option.provider}, which takes none and would ignore it; "
                    "leave it out"
                )
            if option.provider not in self.providers:
                raise SettingsError(
                    f"there is an option {option.key} for {option.provider}, which is not among the providers "
                    f"{', '.join(self.providers)}; add it to them, or leave the option out"
                )
        check_graph_options(self.cuda_graph_batches, self.providers, self.provider_options)
        if not 0 <= self.intra_op_threads <= MAX_THREADS:
            raise SettingsError(
                f"intra_op_threads is {self.intra_op_threads}; it must be 0 (automatic) or a number up to {MAX_THREADS}"
            )
        if not 1 <= self.inter_op_threads <= MAX_THREADS:
            raise SettingsError(f"inter_op_threads is {self.inter_op_threads}; it must be from 1 to {MAX_THREADS}")


class Engine(Protocol):
    """A loaded model. Calls of ``run`` come from one thread at a time, best the thread that loaded the model.

    CUDA graphs belong to the thread that captured them; another thread has to capture its own first.
    """

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in the model's order; optional ones come last."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs in the model's order."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """Free-form strings stored in the model file."""
        ...

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]], outputs: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        """Runs the model once.

        Args:
            feeds: Input name -> C-contiguous array of the input's dtype and shape. May be read-only.
            outputs: Names of the outputs to compute.

        Returns:
            One array for each name in ``outputs``, in that order, not reused by a later call.

        Raises:
            EngineRunError: The model cannot run on these inputs.
        """
        ...

    def trim(self) -> None:
        """Has the next run give back the memory of past runs, as far as the runtime can."""
        ...

    def close(self) -> None:
        """Frees the model. ``run`` must not be called afterwards."""
        ...

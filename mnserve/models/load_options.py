"""Options of every model of a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.execution.run_watch import RunWatch
from mnserve.models.response_cache import ResponseCache
from mnserve.models.warm_up_samples import SampleLimits
from mnserve.settings import ServeSettings

CHOICE_SECONDS: Final = 0.3
"""Time of the runs that choose the threads of one model, in a server."""

EngineFactory = Callable[[Path, EngineOptions], Engine]
"""Loads a model file."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Options of every model.

    Attributes:
        engine: Set-up of engines.
        default_max_batch_size: Most rows in a batch, where the configuration does not set it.
        max_queue_rows: Most rows that may wait for one model; 0 is 64 batches, or max_queue_size of the configuration.
        max_queue_bytes: Most bytes of tensors that may wait for one model.
        warm_up: Run made-up inputs, or the samples of the configuration, first.
        run_timeout: Seconds that a run may take before the engine counts as broken; 0 for no limit.
        cache: Cache for the answers of models whose configuration enables it; None disables it.
        sample_limits: Limits of the warm-up samples of a configuration.
        alone: Run one instance of each model with the engine options unchanged, in spite of its instance_group.
        factory: Loads model files.
        thorough_seconds: Time for further evidence on the batching of a model, once there is some.
        choice_seconds: Time of the runs that choose a model's threads and instances on CPUs; 0 for no choice.
        watch: Told of the runs of a model that is being loaded.
        on_load: Called with the name of a model and True before it is loaded, and with False after that.
    """

    engine: EngineOptions = field(default_factory=EngineOptions)
    default_max_batch_size: int = 32
    max_queue_rows: int = 0
    max_queue_bytes: int = 2**30
    warm_up: bool = True
    run_timeout: float = 0.0
    cache: ResponseCache | None = None
    sample_limits: SampleLimits = field(default_factory=SampleLimits)
    alone: bool = False
    factory: EngineFactory = OnnxRuntimeEngine
    thorough_seconds: float = 1.0
    choice_seconds: float = 0.0
    watch: RunWatch = field(default_factory=RunWatch)
    on_load: Callable[[str, bool], None] = lambda name, begins: None

    @classmethod
    def of_server(cls, settings: ServeSettings, device: int | None = None, devices: tuple[int, ...] = ()) -> Self:
        """Returns the options that a server gives all its models.

        Args:
            settings: Settings of the server.
            device: GPU of this process, where each has its own; None for one process, which has all models.
            devices: All GPUs of the server.
        """
        return cls(
            engine=replace(settings.engine_options, device=device, devices=devices),
            default_max_batch_size=settings.default_max_batch_size,
            max_queue_rows=settings.max_queue_rows,
            max_queue_bytes=settings.max_queue_bytes,
            warm_up=settings.warm_up,
            run_timeout=settings.run_timeout,
            choice_seconds=CHOICE_SECONDS,
            cache=ResponseCache(settings.cache_bytes) if settings.cache_bytes else None,
        )

"""Number and device of a model's instances: ``instance_group`` in its configuration.

Execution providers are chosen for the whole server. A model can ask for fewer of them (``KIND_CPU``), and for several
instances on the same device. It cannot add a GPU that the server was not started with.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from mnserve.engines.base import EngineOptions
from mnserve.engines.device import cuda_device
from mnserve.engines.thread_count import instance_threads
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInstanceGroup

_log = logging.getLogger(__name__)

MAX_INSTANCES: Final = 64
"""Most instances of one model: each has the whole model in memory, and a thread."""

_CPU: Final = "CPUExecutionProvider"
_GPU: Final = frozenset(
    f"{name}ExecutionProvider" for name in ("CUDA", "Tensorrt", "NvTensorRTRTX", "ROCM", "MIGraphX", "Dml", "WebGpu")
)


def instance_count(config: ModelConfig) -> int:
    """Counts the instances that a configuration asks for; 1 by default.

    Raises:
        ModelConfigError: The number is negative or above MAX_INSTANCES.
    """
    counts = [group.count for group in config.instance_group]
    total = sum(count or 1 for count in counts) if counts else 1
    if total > MAX_INSTANCES or any(count < 0 for count in counts):
        raise ModelConfigError(
            f"model '{config.name}': config.pbtxt asks for {total} instances; it may be from 1 to {MAX_INSTANCES}, "
            "since each holds the whole model"
        )
    return total


def instance_options(config: ModelConfig, options: EngineOptions, count: int) -> EngineOptions:
    """Returns the engine options of each instance: the configured device, and the configured threads or a CPU share.

    Args:
        config: Configuration of the model.
        options: Engine options of the server.
        count: Instances that will run side by side.

    Raises:
        ModelConfigError: The configuration asks for a device or a kind that this server lacks.
    """
    kinds = {group.kind for group in config.instance_group}
    names = ", ".join(sorted(ModelInstanceGroup.Kind.Name(kind) for kind in kinds))
    where = f"model '{config.name}': instance_group in config.pbtxt"
    if len(kinds) > 1:
        raise ModelConfigError(f"{where} mixes {names}; all instances of a model run on the same")
    if ModelInstanceGroup.KIND_MODEL in kinds:
        raise ModelConfigError(f"{where} asks for KIND_MODEL; choose KIND_AUTO, KIND_CPU or KIND_GPU")
    for group in config.instance_group:
        if group.passive or group.secondary_devices:
            feature = "a passive group" if group.passive else "secondary_devices"
            raise ModelConfigError(f"{where} asks for {feature}; remove it")
    names_gpus = ModelInstanceGroup.KIND_AUTO in kinds and any(group.gpus for group in config.instance_group)
    if names_gpus or ModelInstanceGroup.KIND_GPU in kinds:
        _check_gpu(f"{where} asks for {'gpus' if names_gpus else 'KIND_GPU'}", options)
    if ModelInstanceGroup.KIND_CPU in kinds:
        options = _without_gpu(options)
    _check_gpus(config, where, options)
    return replace(options, intra_op_threads=instance_threads(config, options.intra_op_threads, count))


def _check_gpu(request: str, options: EngineOptions) -> None:
    if not _GPU.intersection(options.providers):
        text = f"{request}, but the server runs on {', '.join(options.providers)}"
        if not options.allow_fallback:
            raise ModelConfigError(f"{text}; start it with --providers cuda, allow the fallback, or ask for KIND_CPU")
        _log.warning("%s, as the fallback is allowed", text)


def _without_gpu(options: EngineOptions) -> EngineOptions:
    providers = tuple(name for name in options.providers if name not in _GPU) or (_CPU,)
    return replace(
        options,
        providers=providers,
        provider_options=tuple(option for option in options.provider_options if option.provider in providers),
        cuda_graph_batches=(),
    )


def _check_gpus(config: ModelConfig, where: str, options: EngineOptions) -> None:
    """Refuses GPU numbers other than that of the server."""
    used = cuda_device(options).number
    for group in config.instance_group:
        if group.gpus and (list(group.gpus) != [used] or group.kind == ModelInstanceGroup.KIND_CPU):
            raise ModelConfigError(
                f"{where} asks for gpus {list(group.gpus)}, but models run on the device that --provider-options "
                f"cuda.device_id names ({used}); leave gpus out"
            )

"""Number and device of a model's instances: ``instance_group`` in its configuration.

Execution providers are chosen for the whole server. A model can ask for fewer of them (``KIND_CPU``), for some of its
GPUs, and for several instances on each. It cannot add a GPU that the server was not started with.
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


def instances_here(config: ModelConfig, options: EngineOptions) -> int:
    """Counts the instances of a model in this process; 0 where they are all in the processes of other GPUs.

    A group has ``count`` instances on each of its GPUs, or on every GPU where it names none. A model for CPUs is in the
    process of the first GPU.

    Raises:
        ModelConfigError: The number is negative or above MAX_INSTANCES, or a group asks for GPUs that the server lacks.
    """
    total = instance_count(config)
    if options.device is None or not config.instance_group:
        return total
    _check_gpus(config, f"model '{config.name}': instance_group in config.pbtxt", options)
    here = 0
    for group in config.instance_group:
        gpus = group.gpus or _devices(options)
        if group.kind == ModelInstanceGroup.KIND_CPU:
            gpus = _devices(options)[:1]
        here += (group.count or 1) * (options.device in gpus)
    return here


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
    """Refuses GPUs that the server does not use."""
    used = _devices(options)
    for group in config.instance_group:
        if group.gpus and group.kind == ModelInstanceGroup.KIND_CPU:
            raise ModelConfigError(f"{where} asks for KIND_CPU and for gpus {list(group.gpus)}; leave one of both out")
        if not set(group.gpus) <= set(used):
            names = ", ".join(map(str, used))
            raise ModelConfigError(
                f"{where} asks for gpus {list(group.gpus)}, but the server computes on GPU {names}; name none but "
                "these, or leave gpus out for all of them"
            )


def _devices(options: EngineOptions) -> tuple[int, ...]:
    return options.devices or (cuda_device(options).number,)

"""Parameters of Triton's backend for ONNX in a configuration, as options of an engine.

``intra_op_thread_count`` has a file of its own, ``thread_count.py``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mnserve.engines.base import MAX_THREADS, EngineOptions
from mnserve.engines.cpu import available_cpus
from mnserve.engines.providers import CUDA, ProviderOption
from mnserve.engines.session_settings import GraphLevel, SessionSettings
from mnserve.engines.thread_count import INTRA_OP_THREADS
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig

_log = logging.getLogger(__name__)

_MODE: Final = "execution_mode"
_INTER_OP_THREADS: Final = "inter_op_thread_count"
_ARENA: Final = "enable_mem_arena"
_PATTERN: Final = "enable_mem_pattern"
_SHRINKAGE: Final = "memory.enable_memory_arena_shrinkage"
_INITIALIZERS: Final = "session.use_device_allocator_for_initializers"
_SIZE: Final = re.compile("[0-9]{1,20}")
_DEVICES: Final = re.compile("(cpu(:0)?|gpu(:[0-9]{1,4})?)(;(cpu(:0)?|gpu(:[0-9]{1,4})?))*")
_BOOLEANS: Final = {"0": False, "false": False, "1": True, "true": True}
_CUDA_VALUES: Final[Mapping[str, Mapping[str, str] | None]] = {
    "cudnn_conv_algo_search": {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"},
    "arena_extend_strategy": {"0": "kNextPowerOfTwo", "1": "kSameAsRequested"},
    "do_copy_in_default_stream": {"0": "0", "1": "1"},
    "gpu_mem_limit": None,
}
"""Parameters for CUDA, and the provider's value for each of theirs; None for a number of bytes."""
BACKEND_PARAMETERS: Final = frozenset(
    (INTRA_OP_THREADS, _MODE, _INTER_OP_THREADS, _ARENA, _PATTERN, _SHRINKAGE, _INITIALIZERS, *_CUDA_VALUES)
)
"""Parameters of the backend that act here."""
_GRAPH_LEVELS: Final[Mapping[str, GraphLevel]] = {"-1": "basic", "1": "extended", "2": "none"}
"""Levels of ``optimization.graph.level`` in Triton's backend; every other is ``all``."""


def with_backend_parameters(config: ModelConfig, options: EngineOptions, count: int) -> EngineOptions:
    """Returns engine options with what a configuration asks for. Options of the server win, with a warning.

    Args:
        config: Configuration of the model.
        options: Engine options of the server.
        count: Instances that will run side by side.

    Raises:
        ModelConfigError: A parameter has an invalid value.
    """
    session = SessionSettings(
        graph_level=_GRAPH_LEVELS.get(str(config.optimization.graph.level), "all"),
        memory_arena=_boolean(config, _ARENA, default=True),
        memory_pattern=_boolean(config, _PATTERN, default=True),
        arena_shrinkage=_shrinkage(config, options),
        device_initializers=_boolean(config, _INITIALIZERS, default=False),
    )
    return replace(
        options,
        inter_op_threads=_inter_op_threads(config, options.inter_op_threads, count),
        provider_options=(*options.provider_options, *_cuda_options(config, options)),
        session=session,
    )


def _inter_op_threads(config: ModelConfig, server: int, count: int) -> int:
    """Returns the threads across operators; 1 runs operators one after the other, as ``execution_mode`` 0 asks."""
    mode = _text(config, _MODE, "0")
    if mode not in ("0", "1"):
        raise _invalid(config, _MODE, "0 (one operator after the other) or 1 (branches side by side)")
    text = _text(config, _INTER_OP_THREADS, "0")
    if not _SIZE.fullmatch(text) or int(text) > MAX_THREADS:
        raise _invalid(config, _INTER_OP_THREADS, f"0 (automatic) or a number up to {MAX_THREADS}")
    if mode == "0":
        if int(text) > 1:
            _log.warning(
                "model '%s': %s has no effect in config.pbtxt without the parameter %s of \"1\"",
                *(config.name, _INTER_OP_THREADS, _MODE),
            )
        return server
    threads = int(text) or max(1, available_cpus() // count)
    if server not in (1, threads):
        _log.warning(
            "model '%s' runs with %d threads across operators, as --inter-op-threads says, and not with the %d of its "
            "config.pbtxt",
            *(config.name, server, threads),
        )
    return threads if server == 1 else server


def _shrinkage(config: ModelConfig, options: EngineOptions) -> str:
    devices = _text(config, _SHRINKAGE, "")
    if not devices:
        return ""
    if not _DEVICES.fullmatch(devices):
        raise _invalid(config, _SHRINKAGE, 'devices such as "cpu:0" or "cpu:0;gpu:0"')
    if "cpu" in devices and not _boolean(config, _ARENA, default=True):
        raise ModelConfigError(
            f"model '{config.name}': {_SHRINKAGE} is '{devices}' in config.pbtxt, but {_ARENA} switches the arena of "
            "the CPU off; remove one of both"
        )
    if "gpu" in devices and CUDA not in options.providers:
        raise ModelConfigError(
            f"model '{config.name}': {_SHRINKAGE} is '{devices}' in config.pbtxt, but the model does not run on CUDA; "
            "leave the GPU out, or start the server with --providers cuda"
        )
    return devices


def _cuda_options(config: ModelConfig, options: EngineOptions) -> list[ProviderOption]:
    given = {option.key for option in options.provider_options if option.provider == CUDA}
    found = []
    for name, values in _CUDA_VALUES.items():
        text = _text(config, name, "")
        if not text:
            continue
        value = values.get(text) if values is not None else text if _SIZE.fullmatch(text) else None
        if value is None:
            raise _invalid(config, name, "a number of bytes" if values is None else f"one of {', '.join(values)}")
        if CUDA not in options.providers or name in given:
            reason = "--provider-options has it too" if name in given else "it does not run on CUDA"
            _log.warning("model '%s': the parameter %s of config.pbtxt is ignored, as %s", config.name, name, reason)
            continue
        found.append(ProviderOption(provider=CUDA, key=name, value=value))
    return found


def _boolean(config: ModelConfig, name: str, *, default: bool) -> bool:
    text = _text(config, name, "1" if default else "0").lower()
    if text not in _BOOLEANS:
        raise _invalid(config, name, "0 (off) or 1 (on)")
    return _BOOLEANS[text]


def _text(config: ModelConfig, name: str, default: str) -> str:
    return config.parameters[name].string_value.strip() if name in config.parameters else default


def _invalid(config: ModelConfig, name: str, expected: str) -> ModelConfigError:
    text = config.parameters[name].string_value[:80]
    return ModelConfigError(f"model '{config.name}': parameter {name} is '{text}' in config.pbtxt; expected {expected}")

"""ONNX Runtime sessions on the requested execution providers, and on no others."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from mnserve.engines.base import EngineOptions
from mnserve.engines.cpu import available_cpus
from mnserve.engines.fixed_batches import without_graph
from mnserve.engines.provider_libraries import explain, missing_libraries, preload
from mnserve.engines.providers import CUDA, default_options, remedy
from mnserve.engines.runtime import onnxruntime as ort
from mnserve.errors import EngineLoadError

_log = logging.getLogger(__name__)

_FATAL_ONLY: Final = 4  # errors reach the caller as exceptions and need not be printed, too
_CPU: Final = "CPUExecutionProvider"
_REMOTE: Final = "AzureExecutionProvider"  # computes no operator of an ordinary model
_GRAPH_LEVELS: Final = {
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_REFUSAL: Final = "graph capture feature"
"""Part of ONNX Runtime's message about a model that it cannot capture."""


def runs_on_cpus_alone(options: EngineOptions) -> bool:
    """Returns True if a session would compute on CPUs alone, by request or because nothing else is there to start."""
    names = set(options.providers) - {_REMOTE}
    if options.allow_fallback:
        names &= set(ort.get_available_providers())
        names -= {name for name in names if missing_libraries(name)}
    return names == {_CPU}


def open_session(path: Path, options: EngineOptions) -> tuple[ort.InferenceSession, bool]:
    """Opens a session.

    Returns:
        The session, and whether it captures CUDA graphs. A model with control flow, or with nodes that CUDA does not
        compute, gets a session without graphs and a warning.

    Raises:
        EngineLoadError: The file is missing or damaged, or a requested provider is missing.
    """
    _check_providers(options)
    preload(options.providers)
    graphs = bool(options.cuda_graph_batches) and CUDA in ort.get_available_providers()
    try:
        session = _session(path, options, graphs=graphs)
    except EngineLoadError:  # ours, with its own message
        raise
    except Exception as error:  # exceptions of the runtime derive from Exception alone
        if not (graphs and _REFUSAL in str(error)):
            rest, why = _without_broken(options)
            if rest is None:
                raise EngineLoadError(f"ONNX Runtime cannot load {path}: {reason(error)}{why}") from error
            _log.warning("%s runs on %s%s", path, ", ".join(rest.providers), why)
            return open_session(path, rest)
        _log.warning("%s runs without CUDA graphs: %s", path, reason(error))
        return open_session(path, replace(options, cuda_graph_batches=()))
    missing = [name for name in options.providers if name not in session.get_providers()]
    if missing and not options.allow_fallback:
        raise EngineLoadError(
            f"{', '.join(missing)} did not start for {path}; the session has "
            f"{', '.join(session.get_providers())}: {explain(missing)}; repair that, or allow the fallback"
        )
    if options.cuda_graph_batches and CUDA not in session.get_providers():
        _log.warning("%s runs without CUDA graphs: %s is not there", path, CUDA)
        return session, False
    return session, graphs


def _without_broken(options: EngineOptions) -> tuple[EngineOptions | None, str]:
    """Leaves out the providers whose libraries are missing: some, such as TensorRT's, refuse the whole session.

    Returns:
        The options, or None where there is to be no fallback or none is left; and what is missing, as a clause.
    """
    broken = [name for name in options.providers if missing_libraries(name)]
    if not broken:
        return None, ""
    why, rest = f"; {explain(broken)}", tuple(name for name in options.providers if name not in broken)
    if not (rest and options.allow_fallback):
        return None, why
    kept = tuple(option for option in options.provider_options if option.provider in rest)
    return replace(options, providers=rest, provider_options=kept, cuda_graph_batches=()), why


def _session(path: Path, options: EngineOptions, *, graphs: bool) -> ort.InferenceSession:
    session_options = ort.SessionOptions()
    session_options.log_severity_level = _FATAL_ONLY
    if options.global_thread_pool:
        _make_global_pool(options)
        session_options.use_per_session_threads = False
    else:
        session_options.intra_op_num_threads = options.intra_op_threads or available_cpus()
        session_options.inter_op_num_threads = options.inter_op_threads
    if options.inter_op_threads > 1:
        session_options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    settings = options.session
    session_options.graph_optimization_level = _GRAPH_LEVELS[settings.graph_level]
    session_options.enable_cpu_mem_arena = settings.memory_arena
    session_options.enable_mem_pattern = settings.memory_pattern
    if not settings.spinning:
        session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if settings.device_initializers:
        session_options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    return ort.InferenceSession(
        path, sess_options=session_options, providers=_available(path, options, graphs=graphs), enable_fallback=False
    )


def _make_global_pool(options: EngineOptions) -> None:
    """Makes the pool that all sessions of the process share; the first call counts."""
    try:
        ort.set_global_thread_pool_sizes(options.intra_op_threads or available_cpus(), options.inter_op_threads)
    except Exception as error:
        if "already been created" not in str(error):
            raise


def run_options(options: EngineOptions, *, graphs: bool) -> ort.RunOptions | None:
    """Returns the options of a run outside of CUDA graphs; None for those of ONNX Runtime."""
    result = without_graph() if graphs else None
    if options.session.arena_shrinkage:
        result = result or ort.RunOptions()
        result.log_severity_level = _FATAL_ONLY
        result.add_run_config_entry("memory.enable_memory_arena_shrinkage", options.session.arena_shrinkage)
    return result


def trimming_options() -> ort.RunOptions:
    """Returns the options of a run after which the arena of the CPU gives back what nobody uses."""
    result = ort.RunOptions()
    result.log_severity_level = _FATAL_ONLY
    result.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return result


def _check_providers(options: EngineOptions) -> None:
    available = ort.get_available_providers()
    missing = [name for name in options.providers if name not in available]
    if not missing or (options.allow_fallback and len(missing) < len(options.providers)):
        return
    raise EngineLoadError(
        f"execution provider {', '.join(missing)} is not in this build of ONNX Runtime, which has "
        f"{', '.join(available)}; {remedy(missing, ort.get_all_providers())}"
    )


def _available(path: Path, options: EngineOptions, *, graphs: bool) -> list[tuple[str, dict[str, str]]]:
    """Lists the requested providers that this build has, with their options."""
    available = ort.get_available_providers()
    providers = []
    for name in options.providers:
        if name not in available:
            continue
        given = {option.key: option.value for option in options.provider_options if option.provider == name}
        settings = {**default_options(name, path, options.device), **given}
        if graphs and name == CUDA:
            settings["enable_cuda_graph"] = "1"
        for key, value in settings.items():
            if key.endswith("cache_path"):
                _make_folder(Path(value), name)
        providers.append((name, settings))
    return providers


def _make_folder(path: Path, provider: str) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineLoadError(
            f"{provider} cannot keep its engines in {path}: {error.strerror}; give another folder with the option for "
            "its cache path"
        ) from error


def reason(error: Exception) -> str:
    """Returns the message of the runtime on one line, without its prefix of numbers."""
    message = " ".join(str(error).split())
    return message.split(" : ", 3)[-1] if message.startswith("[ONNXRuntimeError]") else message

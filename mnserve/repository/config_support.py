"""Settings of config.pbtxt that this server does not support.

Settings that affect answers, files or safety are refused; those that affect only speed cause a warning.
"""

from __future__ import annotations

import logging
from typing import Final

from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInput, ModelOutput
from mnserve.repository.model_config import BACKEND, PLATFORM

_log = logging.getLogger(__name__)

_BACKEND_PARAMETERS: Final = {
    "inter_op_thread_count": "--inter-op-threads",
    "cudnn_conv_algo_search": "--provider-options cuda.cudnn_conv_algo_search=...",
    "gpu_mem_limit": "--provider-options cuda.gpu_mem_limit=...",
}
"""Parameters of Triton's backend for ONNX that users tune, and the options of this server in their place."""


def check_supported(config: ModelConfig) -> None:
    """Checks that a configuration has no unsupported setting that affects answers, files or safety.

    Raises:
        ModelConfigError: The configuration has one; the message names the setting and the remedy.
    """
    faults = [
        (config.backend not in ("", BACKEND), f"backend '{config.backend}'; only '{BACKEND}' is served"),
        (config.platform not in ("", PLATFORM), f"platform '{config.platform}'; only '{PLATFORM}' is served"),
        (config.HasField("sequence_batching"), "sequence_batching; remove it"),
        (config.HasField("ensemble_scheduling"), "ensemble_scheduling; serve its steps one by one"),
        (config.model_transaction_policy.decoupled, "a decoupled transaction policy; remove it"),
        (bool(config.batch_input or config.batch_output), "batch_input or batch_output; remove them"),
        (bool(config.cc_model_filenames), "cc_model_filenames; name one file with default_model_filename"),
        (bool(config.model_operations.op_library_filename), "model_operations; libraries of operators are not loaded"),
        (
            bool(config.model_repository_agents.agents),
            "model_repository_agents; none is run, so that what they would check or change is not; remove them",
        ),
        (config.max_batch_size < 0, f"max_batch_size {config.max_batch_size}; it must be 0 or more"),
    ]
    tensors: list[ModelInput | ModelOutput] = [*config.input, *config.output]
    faults += [(tensor.is_shape_tensor, f"is_shape_tensor on '{tensor.name}'; remove it") for tensor in tensors]
    faults += [
        (tensor.allow_ragged_batch, f"allow_ragged_batch on '{tensor.name}'; remove it") for tensor in config.input
    ]
    for unsupported, text in faults:
        if unsupported:
            raise ModelConfigError(f"model '{config.name}': config.pbtxt asks for {text}")


def ignored_settings(config: ModelConfig) -> list[str]:
    """Lists the settings of a configuration that are ignored; answers do not depend on them."""
    optimization = config.optimization
    settings = [
        (optimization.HasField("execution_accelerators"), "optimization.execution_accelerators (see --providers)"),
        (optimization.cuda.graphs, "optimization.cuda.graphs (see --cuda-graph-batches)"),
        (optimization.HasField("graph"), "optimization.graph.level (the highest is used)"),
        (optimization.priority != 0, "optimization.priority"),
        (optimization.eager_batching, "optimization.eager_batching"),
        (any(group.HasField("rate_limiter") for group in config.instance_group), "instance_group.rate_limiter"),
        (any(group.host_policy for group in config.instance_group), "instance_group.host_policy"),
        (any(group.profile for group in config.instance_group), "instance_group.profile"),
        *(
            (name in config.parameters, f"parameter {name} (see {option})")
            for name, option in _BACKEND_PARAMETERS.items()
        ),
    ]
    return [text for present, text in settings if present]


def warn_of_ignored(config: ModelConfig) -> None:
    """Logs the ignored settings of a configuration."""
    if texts := ignored_settings(config):
        _log.warning("model '%s': ignored in config.pbtxt: %s", config.name, "; ".join(texts))

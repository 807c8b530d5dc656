"""Threads of an engine within one operator: the option of the server, or the parameter of the model."""

from __future__ import annotations

import logging
from typing import Final

from mnserve.engines.base import MAX_THREADS
from mnserve.engines.cpu import available_cpus
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig

_log = logging.getLogger(__name__)

INTRA_OP_THREADS: Final = "intra_op_thread_count"
"""Parameter of Triton's backend for ONNX: threads of each instance of a model, within one operator."""


def configured_threads(config: ModelConfig) -> int:
    """Reads the threads of each instance from a configuration; 0 where it leaves them to the server.

    Raises:
        ModelConfigError: The parameter is no number, or out of range.
    """
    if INTRA_OP_THREADS not in config.parameters:
        return 0
    text = config.parameters[INTRA_OP_THREADS].string_value.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_THREADS)) and int(text) <= MAX_THREADS):
        raise ModelConfigError(
            f"model '{config.name}': parameter {INTRA_OP_THREADS} is '{text[:80]}' in config.pbtxt; it must be 0 "
            f"(automatic) or a number up to {MAX_THREADS}"
        )
    return int(text)


def instance_threads(config: ModelConfig, server: int, count: int) -> int:
    """Returns the threads of each instance; 0 takes every CPU that the process may use.

    The operator of the server knows the machine, so the server's option wins over the configuration of the model.

    Args:
        config: Configuration of the model.
        server: Threads given to the server; 0 without the option.
        count: Instances that will run side by side.

    Raises:
        ModelConfigError: The configuration has an invalid number of threads.
    """
    configured = configured_threads(config)
    if server:
        if configured and configured != server:
            _log.warning(
                "model '%s' runs with %d threads, as --intra-op-threads says, and not with the %d of its config.pbtxt",
                *(config.name, server, configured),
            )
        return server
    if configured or count == 1:
        return configured
    return max(1, available_cpus() // count)

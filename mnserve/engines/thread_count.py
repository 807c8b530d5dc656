"""How many threads an engine has within one operator: the server's option, or the model's own parameter."""

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


def asked_threads(config: ModelConfig) -> int:
    """Threads of each instance that a configuration asks for; 0 where it leaves them to the server.

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
    """Threads of each instance; 0 takes every CPU that the process may use.

    Whoever starts the server knows its machine, so what is given there wins over the model's configuration.

    Args:
        config: The model's configuration.
        server: Threads that the server was started with; 0 where it was not told.
        count: Instances that will run side by side.

    Raises:
        ModelConfigError: The configuration asks for what cannot be.
    """
    asked = asked_threads(config)
    if server:
        if asked and asked != server:
            _log.warning(
                "model '%s' runs with %d threads, as --intra-op-threads says, and not with the %d of its config.pbtxt",
                *(config.name, server, asked),
            )
        return server
    if asked or count == 1:
        return asked
    return max(1, available_cpus() // count)

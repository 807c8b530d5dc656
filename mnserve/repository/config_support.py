"""Settings of config.pbtxt that this server does not support.

Settings that affect answers, files or safety are refused; those that affect only speed cause a warning.
"""

from __future__ import annotations

import logging
from typing import Final

from mnserve.engines.backend_parameters import BACKEND_PARAMETERS
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig, ModelInput, ModelOutput
from mnserve.repository.model_config import BACKEND, PLATFORM
from mnserve.repository.model_parameters import PARAMETERS
from mnserve.text.names import printable, shortened

_log = logging.getLogger(__name__)

_MODEL_PATH: Final = "1/model.onnx"
_STEPS: Final = "serve its steps as models of their own, and call one after the other"
_WAYS_TO_ONNX: Final = {
    "python": "its code is not run here; export the network in it to ONNX, and keep what is around it in the client",
    "pytorch": "export the model with torch.onnx.export",
    "libtorch": "export the model with torch.onnx.export",
    "tensorflow": "convert the model with tf2onnx",
    "tensorrt": "take the ONNX file that the plan was built from, start the server with --providers tensorrt",
    "openvino": "take the ONNX file that the model was converted from, start the server with --providers openvino",
}
"""Begin of a backend's or platform's name -> way from its models to an ONNX file."""
_DESCRIPTIONS: Final = frozenset(f"mn.{name}" for name in ("family", "finding", "form", "input", "labels"))
"""Parameters with which a published model describes itself."""


def check_supported(config: ModelConfig) -> None:
    """Checks that a configuration has no unsupported setting that affects answers, files or safety.

    Raises:
        ModelConfigError: The configuration has one; the message names the setting and the remedy.
    """
    faults = [
        (config.HasField("ensemble_scheduling") or config.platform == "ensemble", f"an ensemble; {_STEPS}"),
        (config.backend not in ("", BACKEND), f"backend '{config.backend}'; {_other_backend(config.backend)}"),
        (config.platform not in ("", PLATFORM), f"platform '{config.platform}'; {_other_backend(config.platform)}"),
        (config.HasField("sequence_batching"), "sequence_batching; remove it"),
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


def _other_backend(name: str) -> str:
    """Says how a model of another backend can be served."""
    ways = (way for prefix, way in _WAYS_TO_ONNX.items() if name.startswith(prefix))
    return (
        f"only ONNX files are served: {next(ways, 'export the model to ONNX')}, put the file at "
        f"{_MODEL_PATH}, and leave backend and platform out"
    )


def ignored_settings(config: ModelConfig) -> list[str]:
    """Lists the settings of a configuration that are ignored; answers do not depend on them."""
    optimization = config.optimization
    settings = [
        (optimization.HasField("execution_accelerators"), "optimization.execution_accelerators (see --providers)"),
        (optimization.cuda.graphs, "optimization.cuda.graphs (see --cuda-graph-batches)"),
        (optimization.priority != 0, "optimization.priority"),
        (optimization.eager_batching, "optimization.eager_batching"),
        (any(group.HasField("rate_limiter") for group in config.instance_group), "instance_group.rate_limiter"),
        (any(group.host_policy for group in config.instance_group), "instance_group.host_policy"),
        (any(group.profile for group in config.instance_group), "instance_group.profile"),
        *(
            (True, f"parameter {printable(shortened(name))} (it means nothing here)")
            for name in sorted(config.parameters)
            if name not in BACKEND_PARAMETERS | PARAMETERS | _DESCRIPTIONS
        ),
    ]
    return [text for present, text in settings if present]


def warn_of_ignored(config: ModelConfig) -> None:
    """Logs the ignored settings of a configuration."""
    if texts := ignored_settings(config):
        _log.warning("model '%s': ignored in config.pbtxt: %s", config.name, "; ".join(texts))

"""Configuration of a model, completed from its engine and checked against it.

Shapes in config.pbtxt omit the batch dimension where ``max_batch_size`` > 0; shapes of an engine include it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from mnserve.codec.datatypes import BY_CONFIG_TYPE, DATATYPES, Datatype
from mnserve.codec.input_rules import InputRules
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.engines.base import TensorSpec
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelOutput
from mnserve.repository.input_limits import row_limit, value_ranges
from mnserve.repository.model_parameters import allows_nan, allows_non_finite, decides_batching, on_request
from mnserve.repository.reshape import hold_as_many
from mnserve.repository.shared_axes import shared_axes

_log = logging.getLogger(__name__)

PLATFORM: Final = "onnxruntime_onnx"
BACKEND: Final = "onnxruntime"
_LISTED_OPTIONAL: Final = 16
"""Most optional inputs that a completed configuration lists: in old files every weight is one."""


def complete(
    config: ModelConfig, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, max_batch_size: int
) -> ModelConfig:
    """Completes a copy of the configuration.

    Args:
        config: Content of config.pbtxt.
        inputs: Inputs of the engine.
        outputs: Outputs of the engine.
        max_batch_size: Most rows in a batch, where the configuration does not decide it.
    """
    result = ModelConfig()
    result.CopyFrom(config)
    result.platform = result.platform or PLATFORM
    result.backend = result.backend or BACKEND
    result.max_batch_size = config.max_batch_size if decides_batching(config) else max_batch_size
    skip = 1 if result.max_batch_size > 0 else 0
    if not result.input:
        result.input.extend(
            ModelInput(name=spec.name, data_type=_type(spec), dims=spec.shape[skip:])
            for spec in inputs
            if not spec.optional
        )
        optional = [spec for spec in inputs if spec.optional]
        if len(optional) <= _LISTED_OPTIONAL:
            result.input.extend(
                ModelInput(name=spec.name, data_type=_type(spec), dims=spec.shape, optional=True) for spec in optional
            )
    if not result.output:
        result.output.extend(
            ModelOutput(name=spec.name, data_type=_type(spec), dims=spec.shape[skip:]) for spec in outputs
        )
    if result.max_batch_size > 0 and not result.HasField("dynamic_batching"):
        result.dynamic_batching.SetInParent()
    return result


def signature(config: ModelConfig, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> RequestSignature:
    """Returns the rules for requests, after checking a complete configuration against the engine.

    Raises:
        ModelConfigError: The two disagree; the message names the tensor and both values.
    """
    required = [spec.name for spec in inputs if not spec.optional]
    _check_names("input", config, [tensor.name for tensor in config.input], inputs, required)
    _check_names("output", config, [tensor.name for tensor in config.output], outputs, ())
    configured = {tensor.name: tensor for tensor in config.input}
    input_rules = [
        _input_rule(config, configured[spec.name], spec)
        if spec.name in configured
        else TensorRule(name=spec.name, datatype=DATATYPES[spec.datatype], dims=spec.shape, optional=True)
        for spec in inputs
    ]
    by_name = {spec.name: spec for spec in outputs}
    output_rules = [_output_rule(config, tensor, by_name[tensor.name]) for tensor in config.output]
    return RequestSignature(
        model=config.name,
        max_batch_size=config.max_batch_size,
        inputs=tuple(rule for rule in input_rules if not rule.optional),
        outputs=tuple(output_rules),
        on_request=on_request(config),
        allow_non_finite=allows_non_finite(config),
        allow_nan=allows_nan(config),
        optional_inputs=tuple(rule for rule in input_rules if rule.optional),
        input_rules=InputRules(
            shared_axes=shared_axes(inputs, batched=config.max_batch_size > 0),
            row_limit=row_limit(config, input_rules),
            value_ranges=value_ranges(config, input_rules),
        ),
    )


def warn_of_output_shapes(config: ModelConfig, outputs: Sequence[TensorSpec]) -> None:
    """Logs the outputs of a complete configuration that have another shape in the model file."""
    shapes = {spec.name: spec.shape for spec in outputs}
    for tensor in config.output:
        full = (-1, *tensor.dims) if config.max_batch_size > 0 else tuple(tensor.dims)
        shape = shapes[tensor.name]
        if shape and not _agree(full, shape):
            _log.warning(
                "model '%s': output '%s' has shape %s by config.pbtxt, but %s in the model file; answers have the "
                "shape that the model computes",
                *(config.name, tensor.name, list(full), list(shape)),
            )


def _type(spec: TensorSpec) -> str:
    return DataType.Name(DATATYPES[spec.datatype].config_type)


def _check_names(
    kind: str, config: ModelConfig, names: list[str], specs: Iterable[TensorSpec], required: Sequence[str]
) -> None:
    known = [spec.name for spec in specs]
    where = f"model '{config.name}'"
    for name in names:
        if names.count(name) > 1:
            raise ModelConfigError(f"{where}: config.pbtxt has {kind} '{name}' {names.count(name)} times")
        if name not in known:
            raise ModelConfigError(
                f"{where}: config.pbtxt has {kind} '{name}', but the model file has {', '.join(known) or 'none'}"
            )
    missing = [name for name in required if name not in names]
    if missing:
        raise ModelConfigError(
            f"{where}: the model file has {kind} {', '.join(missing)}, but config.pbtxt only {', '.join(names)}"
        )


def _input_rule(config: ModelConfig, tensor: ModelInput, spec: TensorSpec) -> TensorRule:
    """Checks an input against the file: ONNX Runtime refuses what does not fit the shape that is declared there."""
    what = f"model '{config.name}': input '{tensor.name}'"
    datatype, dims = _checked_type(what, tensor, spec), tuple(tensor.dims)
    if tensor.optional and not spec.optional:
        raise ModelConfigError(
            f"{what} is optional in config.pbtxt, but the model file has no default for it; take optional away, or "
            "make it an initializer that is an input of the graph, too"
        )
    batched = config.max_batch_size > 0 and not spec.optional
    if not spec.shape:  # a scalar, or nothing declared
        open_shape = not dims and not batched
        return TensorRule(name=tensor.name, datatype=datatype, dims=dims, any_shape=open_shape, optional=spec.optional)
    full = (-1, *dims) if batched else dims
    if batched and spec.shape[:1] != (-1,):
        raise ModelConfigError(
            f"{what} has shape {list(spec.shape)} in the model file, whose first dimension is no batch of any size; "
            f"set max_batch_size to 0 instead of {config.max_batch_size}, and dims to {list(spec.shape)}"
        )
    if not _fits(full, spec.shape):
        own = list(spec.shape[1:] if batched else spec.shape)
        other = f", or keep them and add reshape {{ shape: {own} }}" if hold_as_many(dims, own) else ""
        if not batched and spec.shape[0] == -1 and _fits((-1, *dims), spec.shape):
            other = ", or keep them and set max_batch_size, if the first dimension is a batch"
        raise ModelConfigError(
            f"{what} has shape {list(full)} by config.pbtxt, but {list(spec.shape)} in the model file; set its dims to "
            f"{own}{other}"
        )
    return TensorRule(name=tensor.name, datatype=datatype, dims=dims, optional=spec.optional)


def _output_rule(config: ModelConfig, tensor: ModelOutput, spec: TensorSpec) -> TensorRule:
    """Takes an output as it is configured: shapes of outputs are hints, in a file and in a configuration."""
    datatype, dims = _checked_type(f"model '{config.name}': output '{tensor.name}'", tensor, spec), tuple(tensor.dims)
    return TensorRule(name=tensor.name, datatype=datatype, dims=dims)


def _checked_type(what: str, tensor: ModelInput | ModelOutput, spec: TensorSpec) -> Datatype:
    datatype = BY_CONFIG_TYPE.get(tensor.data_type)
    if datatype is None:
        raise ModelConfigError(f"{what} has no data_type in config.pbtxt; the model file has {spec.datatype}")
    if datatype.name != spec.datatype:
        raise ModelConfigError(
            f"{what} is {datatype.name} in config.pbtxt, but {spec.datatype} in the model file; make them agree"
        )
    if any(size < -1 for size in tensor.dims):
        raise ModelConfigError(f"{what} has dims {list(tensor.dims)} in config.pbtxt; sizes are -1 (any) or more")
    return datatype


def _agree(configured: tuple[int, ...], engine: tuple[int, ...]) -> bool:
    """Returns True if some tensor has both shapes."""
    return len(configured) == len(engine) and all(
        -1 in (size, engine_size) or size == engine_size for size, engine_size in zip(configured, engine, strict=True)
    )


def _fits(configured: tuple[int, ...], engine: tuple[int, ...]) -> bool:
    """Returns True if the engine takes every shape that the configuration allows."""
    return len(configured) == len(engine) and all(
        engine_size in (-1, size) for size, engine_size in zip(configured, engine, strict=True)
    )

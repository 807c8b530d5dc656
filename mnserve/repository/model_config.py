"""Configuration of a model, completed from its engine and checked against it.

Shapes in config.pbtxt omit the batch dimension where ``max_batch_size`` > 0; shapes of an engine include it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mnserve.codec.datatypes import BY_CONFIG_TYPE, DATATYPES
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.engines.base import TensorSpec
from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelOutput
from mnserve.text.json_text import parse_json

PLATFORM: Final = "onnxruntime_onnx"
BACKEND: Final = "onnxruntime"
_ALLOW_NON_FINITE: Final = "allow_non_finite"
_ON_REQUEST: Final = "mn.on_request"
_ALLOWED_SIZES: Final = "mn.allowed_batch_sizes"


def complete(
    config: ModelConfig,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    default_max_batch_size: int,
) -> ModelConfig:
    """Completes a copy of the configuration.

    Where the file has neither inputs nor outputs, ``max_batch_size`` follows from the engine, too: the default if every
    input and output has a leading dimension of any size, else 0.

    Args:
        config: Content of config.pbtxt.
        inputs: Inputs of the engine.
        outputs: Outputs of the engine.
        default_max_batch_size: Most rows in a batch, where the configuration does not set it.
    """
    result = ModelConfig()
    result.CopyFrom(config)
    result.platform = result.platform or PLATFORM
    result.backend = result.backend or BACKEND
    if not config.input and not config.output and config.max_batch_size == 0:
        leading = [spec.shape[:1] == (-1,) for spec in (*inputs, *outputs)]
        result.max_batch_size = default_max_batch_size if leading and all(leading) else 0
    skip = 1 if result.max_batch_size > 0 else 0
    if not result.input:
        result.input.extend(
            ModelInput(name=spec.name, data_type=_type(spec), dims=spec.shape[skip:]) for spec in inputs
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
    _check_names("input", config, [tensor.name for tensor in config.input], inputs, complete_list=True)
    _check_names("output", config, [tensor.name for tensor in config.output], outputs, complete_list=False)
    by_name = {spec.name: spec for spec in inputs}
    input_rules = [
        _rule("input", config, tensor, by_name[tensor.name])
        for tensor in sorted(config.input, key=lambda tensor: list(by_name).index(tensor.name))
    ]
    by_name = {spec.name: spec for spec in outputs}
    output_rules = [_rule("output", config, tensor, by_name[tensor.name]) for tensor in config.output]
    return RequestSignature(
        model=config.name,
        max_batch_size=config.max_batch_size,
        inputs=tuple(input_rules),
        outputs=tuple(output_rules),
        on_request=_on_request(config),
        allow_non_finite=_flag(config, _ALLOW_NON_FINITE),
    )


def _type(spec: TensorSpec) -> str:
    return DataType.Name(DATATYPES[spec.datatype].config_type)


def _check_names(
    kind: str, config: ModelConfig, names: list[str], specs: Iterable[TensorSpec], *, complete_list: bool
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
    missing = [name for name in known if name not in names]
    if complete_list and missing:
        raise ModelConfigError(
            f"{where}: the model file has {kind} {', '.join(missing)}, but config.pbtxt only {', '.join(names)}"
        )


def _rule(kind: str, config: ModelConfig, tensor: ModelInput | ModelOutput, spec: TensorSpec) -> TensorRule:
    what = f"model '{config.name}': {kind} '{tensor.name}'"
    datatype = BY_CONFIG_TYPE.get(tensor.data_type)
    if datatype is None:
        raise ModelConfigError(f"{what} has no data_type in config.pbtxt; the model file has {spec.datatype}")
    if datatype.name != spec.datatype:
        raise ModelConfigError(
            f"{what} is {datatype.name} in config.pbtxt, but {spec.datatype} in the model file; make them agree"
        )
    dims = tuple(tensor.dims)
    full = (-1, *dims) if config.max_batch_size > 0 else dims
    unknown_rank = kind == "output" and spec.shape == ()
    if config.max_batch_size > 0 and not unknown_rank and spec.shape[:1] != (-1,):
        raise ModelConfigError(
            f"{what} has shape {list(spec.shape)} in the model file, whose first dimension is no batch of any size; "
            f"set max_batch_size to 0 instead of {config.max_batch_size}"
        )
    if any(size < -1 for size in dims) or (not unknown_rank and not _fits(full, spec.shape)):
        raise ModelConfigError(
            f"{what} has shape {list(full)} by config.pbtxt, but {list(spec.shape)} in the model file; make them agree"
        )
    return TensorRule(name=tensor.name, datatype=datatype, dims=dims)


def _fits(configured: tuple[int, ...], engine: tuple[int, ...]) -> bool:
    """Returns True if the engine takes every shape that the configuration allows."""
    return len(configured) == len(engine) and all(
        engine_size in (-1, size) for size, engine_size in zip(configured, engine, strict=True)
    )


def _flag(config: ModelConfig, name: str) -> bool:
    if name not in config.parameters:
        return False
    text = config.parameters[name].string_value.strip().lower()
    if text not in ("true", "false"):
        raise ModelConfigError(
            f"model '{config.name}': parameter {name} is '{text}' in config.pbtxt; expected \"true\" or \"false\""
        )
    return text == "true"


def default_outputs(config: ModelConfig) -> tuple[str, ...]:
    """Lists the outputs of a request that names none.

    Raises:
        ModelConfigError: The parameter mn.on_request is invalid.
    """
    on_request = _on_request(config)
    return tuple(output.name for output in config.output if output.name not in on_request)


def allowed_batch_sizes(config: ModelConfig) -> tuple[int, ...]:
    """Reads the batch sizes that a model runs at, ascending; batches in between are padded. Empty for any size.

    Raises:
        ModelConfigError: The parameter mn.allowed_batch_sizes is invalid, or has no size for the largest batch.
    """
    if _ALLOWED_SIZES not in config.parameters:
        return ()
    text = config.parameters[_ALLOWED_SIZES].string_value
    where = f"model '{config.name}': parameter {_ALLOWED_SIZES} is '{text[:80]}' in config.pbtxt"
    try:
        sizes = parse_json(text)
    except ValueError:
        sizes = None
    if not isinstance(sizes, list) or not sizes or not all(type(size) is int and 1 <= size < 2**31 for size in sizes):
        raise ModelConfigError(f"{where}; expected a JSON list of batch sizes, such as [1, 8, 32]")
    if config.max_batch_size > max(sizes):
        raise ModelConfigError(
            f"{where}, less than max_batch_size {config.max_batch_size}; add a size that holds the largest batch"
        )
    if config.max_batch_size == 0 and (config.input or config.output):
        raise ModelConfigError(f"{where}, but max_batch_size is 0; set it, or remove the parameter")
    return tuple(sorted(set(sizes)))


def _on_request(config: ModelConfig) -> frozenset[str]:
    """Reads the outputs that are computed on request only: the parameter mn.on_request, a JSON list of names."""
    if _ON_REQUEST not in config.parameters:
        return frozenset()
    text = config.parameters[_ON_REQUEST].string_value
    try:
        names = parse_json(text)
    except ValueError:
        names = None
    known = [tensor.name for tensor in config.output]
    if not isinstance(names, list) or not all(name in known for name in names) or set(names) >= set(known):
        raise ModelConfigError(
            f"model '{config.name}': parameter {_ON_REQUEST} is '{text[:80]}' in config.pbtxt; expected a JSON list of "
            f"some of the outputs {', '.join(known)}"
        )
    return frozenset(names)

"""What a configuration says before any engine is open: parameters of this server, and who decides on batches."""

from __future__ import annotations

from typing import Final

from mnserve.errors import ModelConfigError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.text.json_text import parse_json

_ALLOW_NON_FINITE: Final = "allow_non_finite"
_ALLOW_NAN: Final = "allow_nan"
_ON_REQUEST: Final = "mn.on_request"
_ALLOWED_SIZES: Final = "mn.allowed_batch_sizes"
_WARM_UP: Final = "mn.warm_up"
ROW_LIMIT: Final = "mn.row_limit"
"""Parameter with the most rows of a request, read by ``input_limits``."""
VALUE_RANGES: Final = "mn.value_ranges"
"""Parameter with the values that inputs may have, read by ``input_limits``."""
PARAMETERS: Final = frozenset(
    (_ALLOW_NON_FINITE, _ALLOW_NAN, _ON_REQUEST, _ALLOWED_SIZES, _WARM_UP, ROW_LIMIT, VALUE_RANGES)
)
"""Parameters of this server."""


def decides_batching(config: ModelConfig) -> bool:
    """Returns True if a configuration decides whether requests are joined.

    It does by ``max_batch_size``, a written 0 included. It does by listing inputs or outputs as well: whether their
    dims leave out a batch dimension follows from ``max_batch_size``, which is 0 where it is missing.
    """
    return config.HasField("max_batch_size") or bool(config.input or config.output)


def with_defaults(config: ModelConfig, *, exported: bool) -> ModelConfig:
    """Adds what holds for a model that nobody configured: NaN and infinity pass.

    A classifier would answer NaN with its first class, so a configuration, or an export, leaves them out by default.
    About any other graph nothing is known: trees take NaN for a missing value, and some graphs look for it.

    Args:
        config: Content of config.pbtxt; only ``name`` without a file.
        exported: The model was published by an exporter that knows it.
    """
    if exported or config != ModelConfig(name=config.name):
        return config
    result = ModelConfig(name=config.name)
    result.parameters[_ALLOW_NON_FINITE].string_value = "true"
    return result


def allows_non_finite(config: ModelConfig) -> bool:
    """Reads the parameter allow_non_finite, with which NaN and infinity pass; False without it.

    Raises:
        ModelConfigError: It is neither true nor false.
    """
    return _flag(config, _ALLOW_NON_FINITE)


def allows_nan(config: ModelConfig) -> bool:
    """Reads the parameter allow_nan, with which NaN passes and infinity does not; False without it.

    Raises:
        ModelConfigError: It is neither true nor false.
    """
    return _flag(config, _ALLOW_NAN)


def warm_up_enabled(config: ModelConfig) -> bool:
    """Reads the parameter mn.warm_up; True without it.

    Raises:
        ModelConfigError: It is neither true nor false.
    """
    return _WARM_UP not in config.parameters or _flag(config, _WARM_UP)


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
    if config.max_batch_size == 0 and decides_batching(config):
        raise ModelConfigError(f"{where}, but max_batch_size is 0; set it, or remove the parameter")
    return tuple(sorted(set(sizes)))


def on_request(config: ModelConfig) -> frozenset[str]:
    """Reads the outputs that are computed on request only: the parameter mn.on_request, a JSON list of names.

    Raises:
        ModelConfigError: It is no such list, or names all outputs.
    """
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


def default_outputs(config: ModelConfig) -> tuple[str, ...]:
    """Lists the outputs of a request that names none.

    Raises:
        ModelConfigError: The parameter mn.on_request is invalid.
    """
    left_out = on_request(config)
    return tuple(output.name for output in config.output if output.name not in left_out)


def _flag(config: ModelConfig, name: str) -> bool:
    if name not in config.parameters:
        return False
    text = config.parameters[name].string_value.strip().lower()
    if text not in ("true", "false"):
        raise ModelConfigError(
            f"model '{config.name}': parameter {name} is '{text}' in config.pbtxt; expected \"true\" or \"false\""
        )
    return text == "true"

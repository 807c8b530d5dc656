"""Configuration in a call that overrides the one on disk: JSON of a ModelConfig."""

from __future__ import annotations

from typing import Final, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor

from mnserve.errors import InvalidRequestError
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.text.json_text import parse_json
from mnserve.text.message_json import mismatch
from mnserve.text.names import printable, shortened

_MAX_CHARACTERS: Final = 256 * 1024
"""Characters of the JSON. Parsing this many takes up to half a second of a CPU, and real configurations are shorter."""
_MAX_REASON: Final = 400
"""Characters of the reason in a message, since the path of a field can be long."""


def parse_override(text: str, name: str) -> ModelConfig:
    """Parses the configuration, and sets its ``name``.

    Args:
        text: JSON; fields as in config.pbtxt, or in lowerCamelCase.
        name: Name of the model.

    Raises:
        InvalidRequestError: The text is too long or no JSON object, has a field or value outside of ModelConfig, or
            names another model.
    """
    where = f"model '{printable(shortened(name))}': the parameter 'config'"
    if len(text) > _MAX_CHARACTERS:
        raise InvalidRequestError(
            f"{where} has {len(text)} characters, expected at most {_MAX_CHARACTERS}; put what is so long into "
            "config.pbtxt"
        )
    try:
        values = parse_json(text, strict=True)
    except ValueError as error:
        raise InvalidRequestError(f"{where} is no JSON: {error}") from error
    fault = mismatch(values, cast(Descriptor, ModelConfig.DESCRIPTOR))
    if fault is not None:
        raise InvalidRequestError(f"{where} is no ModelConfig: {shortened(fault, _MAX_REASON)}")
    config = ModelConfig()
    try:
        json_format.ParseDict(values, config)
    except json_format.ParseError as error:
        raise InvalidRequestError(
            f"{where} is no ModelConfig; write what json_format.MessageToJson makes of one, or what ModelConfig answers"
        ) from error
    if config.name not in ("", name):
        raise InvalidRequestError(
            f"{where} names the model '{printable(shortened(config.name))}'; make both names agree, or leave the one "
            "in it out"
        )
    config.name = name
    return config

"""The configuration that a call brings along instead of the one on disk: JSON of a ModelConfig."""

from __future__ import annotations

from typing import Final

from google.protobuf import json_format

from mnserve.errors import InvalidRequestError
from mnserve.json_text import parse_json
from mnserve.protocol.model_config_pb2 import ModelConfig

__all__ = ["parse_override"]

_MAX_REASON: Final = 300
"""Most characters of what the parser says: it lists every field that there is."""


def parse_override(text: str, name: str) -> ModelConfig:
    """The configuration with ``name`` filled in.

    Args:
        text: JSON; fields as in config.pbtxt, or in lowerCamelCase.
        name: The model that it is for.

    Raises:
        InvalidRequestError: It is no JSON object, has a field or value that a ModelConfig does not have, or is for
            another model.
    """
    where = f"model '{name[:64]}': the parameter 'config'"
    try:
        found = parse_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"{where} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidRequestError(f"{where} is {type(found).__name__} in JSON, expected an object of a ModelConfig")
    config = ModelConfig()
    try:
        json_format.Parse(text, config)  # from the text: it finds names that are there twice
    except json_format.ParseError as error:
        reason = " ".join(str(error).split(" Available Fields")[0].split())
        raise InvalidRequestError(f"{where} is no ModelConfig: {reason[:_MAX_REASON]}") from error
    if config.name not in ("", name):
        raise InvalidRequestError(
            f"{where} names the model '{config.name[:64]}'; make both names agree, or leave the one in it out"
        )
    config.name = name
    return config

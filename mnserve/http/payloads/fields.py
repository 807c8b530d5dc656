"""Fields of JSON, each of the kind that the protocol has there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mnserve.codec.request_layout import MAX_DIMENSIONS
from mnserve.errors import InvalidRequestError
from mnserve.text.names import printable, shortened

_LARGEST: Final = 2**63


def set_parameters(target: Any, parameters: Mapping[str, Any], what: str) -> None:
    """Writes values of JSON as parameters of the protocol.

    Args:
        target: Map of the message.
        parameters: Name -> value.
        what: Owner of the parameters, for messages.

    Raises:
        InvalidRequestError: A value is a list, an object, or an integer of more than 64 bits.
    """
    for name, value in parameters.items():
        if value is None:  # as clients write fields that are not set
            continue
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, str):
            target[name].string_param = value
        elif isinstance(value, int) and -_LARGEST <= value < 2 * _LARGEST:
            if value < _LARGEST:
                target[name].int64_param = value
            else:
                target[name].uint64_param = value
        elif isinstance(value, float):
            target[name].double_param = value
        else:
            raise InvalidRequestError(
                f"the parameter '{shown(name)}' of {what} is neither text, a number, true nor false"
            )


def shape_of(value: Any, what: str) -> list[int]:
    """Returns a shape.

    Args:
        value: Value of the field.
        what: Owner of the shape, for messages.

    Raises:
        InvalidRequestError: It is no list of whole numbers, or too long a one.
    """
    if not isinstance(value, list) or any(type(size) is not int for size in value):
        raise InvalidRequestError(f"{what} has no shape; send a list of whole numbers, such as [1, 4]")
    if len(value) > MAX_DIMENSIONS:
        raise InvalidRequestError(f"{what} has a shape of {len(value)} dimensions, expected at most {MAX_DIMENSIONS}")
    if any(not -_LARGEST <= size < _LARGEST for size in value):
        raise InvalidRequestError(f"{what} has shape {value}, with a size of more than 64 bits")
    return value


def text_of(owner: Mapping[str, Any], key: str, what: str) -> str:
    """Returns the text in a field; an empty one where there is none.

    Raises:
        InvalidRequestError: The field has something else.
    """
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequestError(f"the field {key} of {what} is no text; write it in quotes")
    return value


def object_of(owner: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    """Returns a copy of the object in a field; an empty one where there is none.

    Args:
        owner: Object that has the field.
        key: Name of the field.
        what: Name of the owner, for messages.

    Raises:
        InvalidRequestError: The field has something else.
    """
    value = owner.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequestError(f"the field {key} of {what} is no object; write one, such as {{}}")
    return dict(value)


def list_of(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Returns the objects in a field; none where it is missing.

    Raises:
        InvalidRequestError: The field has something else.
    """
    value = content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or any(type(item) is not dict for item in value):
        raise InvalidRequestError(f"the field {key} is no list of objects; write one, such as [{{}}]")
    return value


def truth_of(value: Any, name: str) -> bool:
    """Returns the value of a parameter that is true or false; false where it is not set.

    Raises:
        InvalidRequestError: It is neither.
    """
    if value is not None and not isinstance(value, bool):
        raise InvalidRequestError(f"the parameter {name} is neither true nor false")
    return bool(value)


def shown(text: str) -> str:
    """Returns a name of a client for messages."""
    return printable(shortened(text))

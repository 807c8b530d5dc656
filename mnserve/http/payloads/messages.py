"""Messages of the protocol as JSON: fields under their own names, 64-bit integers as numbers, enumerations by name."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from mnserve.http.answers import HttpAnswer, json_answer


def message_answer(message: Message) -> HttpAnswer:
    """Returns a message as an answer."""
    return json_answer(message_content(message))


def message_content(message: Message) -> dict[str, Any]:
    """Returns a message as values of JSON; messages and choices that are not set are left out."""
    content: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        content[field.name] = _content(field, getattr(message, field.name))
    return content


def _content(field: FieldDescriptor, value: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return {str(key): _single(entry.fields_by_name["value"], element) for key, element in value.items()}
    if field.is_repeated:
        return [_single(field, element) for element in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return message_content(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        choice = field.enum_type.values_by_number.get(value)
        return value if choice is None else choice.name
    return value

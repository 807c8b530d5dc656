"""JSON of a protobuf message, checked field by field before protobuf parses it: messages about faults are ours.

Field types are those of a ``ModelConfig``: messages, maps, lists, enumerations, text, truth values and numbers; no
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from mnserve.text.names import printable, shortened

_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_LARGEST_FLOAT: Final = {
    FieldDescriptor.CPPTYPE_FLOAT: 3.4028234663852886e38,
    FieldDescriptor.CPPTYPE_DOUBLE: 1.7976931348623157e308,
}
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAMED_VALUES: Final = 8
_MAX_KEY: Final = 40


def mismatch(value: Any, message: Descriptor, path: str = "") -> str | None:
    """Describes the first fault of a JSON value against a message type, as a clause that names the field.

    Args:
        value: JSON value of the field.
        message: Type of the message.
        path: Path of the field, such as ``input[0]``; empty for the whole.

    Returns:
        The clause; None where the value fits.
    """
    if not isinstance(value, dict):
        return f"{path or 'it'} is {_kind_of(value)}; write an object, such as {{}}"
    given: dict[str, str] = {}
    choices: dict[str, str] = {}
    fields = {name: field for field in message.fields for name in (field.name, field.json_name)}
    for key, member in value.items():
        shown = _shown(key)
        member_path = f"{path}.{shown}" if path else shown
        field = fields.get(key) if not _SURROGATE.search(key) else None
        if field is None:
            return f"there is no field {member_path}; take it out, or correct its name"
        twin = given.setdefault(field.name, key)
        if twin != key:
            return f"{member_path} is given twice, also as {_shown(twin)}; leave one out"
        if member is None:
            continue  # null is an absent field
        choice = field.containing_oneof
        if choice is not None and (other := choices.setdefault(choice.name, key)) != key:
            return f"{member_path} and {_shown(other)} exclude each other; leave one out"
        if fault := _field_mismatch(member, field, member_path):
            return fault
    return None


def _kind_of(value: Any) -> str:
    """Names the kind of a JSON value."""
    if value is None:
        return "null"
    kinds: Mapping[type, str] = {bool: "a truth value", str: "text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


def _field_mismatch(value: Any, field: FieldDescriptor, path: str) -> str | None:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        if not isinstance(value, dict):
            return f"{path} is {_kind_of(value)}; write an object of names and values"
        twins: dict[str | int, str] = {}
        for key, element in value.items():
            element_path = f"{path}[{_shown(key)}]"
            fault = _value_mismatch(key, entry.fields_by_name["key"], f"the key of {element_path}")
            if fault := fault or _value_mismatch(element, entry.fields_by_name["value"], element_path):
                return fault
            parsed_key = _parsed_key(key, entry.fields_by_name["key"])
            if (twin := twins.setdefault(parsed_key, key)) != key:
                return f"{element_path} is given twice, also as {_shown(twin)}; leave one out"
        return None
    if not field.is_repeated:
        return _value_mismatch(value, field, path)
    if not isinstance(value, list):
        return f"{path} is {_kind_of(value)}; write a list, such as []"
    faults = (_value_mismatch(element, field, f"{path}[{index}]") for index, element in enumerate(value))
    return next(filter(None, faults), None)


def _value_mismatch(value: Any, field: FieldDescriptor, path: str) -> str | None:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return mismatch(value, field.message_type, path)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum_mismatch(value, field.enum_type, path)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return (
            None if isinstance(value, bool) else f"{path} is {_described(value)}; write true or false, without quotes"
        )
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if not isinstance(value, str):
            return f"{path} is {_described(value)}; write text, in quotes"
        if _SURROGATE.search(value):
            return f"{path} has half of a surrogate pair, which is no character; write both halves, or leave it out"
        return None
    if kind in _RANGES:
        minimum, maximum = _RANGES[kind]
        number = _integer(value)
        fits = number is not None and minimum <= number <= maximum
        return None if fits else f"{path} is {_described(value)}; write a whole number from {minimum} to {maximum}"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    limit = _LARGEST_FLOAT[kind]
    fits = is_number and abs(value) <= limit
    return None if fits else f"{path} is {_described(value)}; write a finite number of at most {limit:.3g}"


def _parsed_key(key: str, field: FieldDescriptor) -> str | int:
    """Converts a valid key of a map: 01 is 1 where keys are numbers."""
    return int(key) if field.cpp_type in _RANGES else key


def _enum_mismatch(value: Any, choices: EnumDescriptor, path: str) -> str | None:
    if isinstance(value, str) and not _SURROGATE.search(value) and value in choices.values_by_name:
        return None
    number = None if isinstance(value, str) else _integer(value)
    if number in choices.values_by_number:
        return None
    names = [choice.name for choice in choices.values]
    more = f" and {len(names) - _NAMED_VALUES} more" if len(names) > _NAMED_VALUES else ""
    return f"{path} is {_described(value)}; write one of {', '.join(names[:_NAMED_VALUES])}{more}"


def _integer(value: Any) -> int | None:
    """Converts a whole number: a number such as 1 or 1.0, or text, as JSON of a message has 64-bit integers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def _described(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text '{_shown(value)}'"
    if isinstance(value, (int, float)):
        return shortened(str(value), _MAX_KEY)
    return _kind_of(value)


def _shown(text: str) -> str:
    return printable(shortened(text, _MAX_KEY))

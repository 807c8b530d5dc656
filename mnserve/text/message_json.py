"""JSON of a message looked at field by field before protobuf reads it: what is wrong is named in words of ours.

Only what a ``ModelConfig`` has is known: messages, maps, lists, enumerations, text, truth values and numbers; no bytes.
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
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAMED_VALUES: Final = 8
_MAX_KEY: Final = 40


def mismatch(value: Any, message: Descriptor, path: str = "") -> str | None:
    """What about a JSON value does not fit a message, as a clause that names the place; None where all fits.

    Args:
        value: what stands at the place.
        message: what it is to be.
        path: the place, such as ``input[0]``; empty for the whole.
    """
    if not isinstance(value, dict):
        return f"{path or 'it'} is {_kind_of(value)}; write an object, such as {{}}"
    given: dict[str, str] = {}
    choices: dict[str, str] = {}
    known = {name: field for field in message.fields for name in (field.name, field.json_name)}
    for key, item in value.items():
        shown = _shown(key)
        place = f"{path}.{shown}" if path else shown
        field = known.get(key) if not _SURROGATE.search(key) else None
        if field is None:
            return f"there is no field {place}; take it out, or correct its name"
        twin = given.setdefault(field.name, key)
        if twin != key:
            return f"{place} is given twice, also as {_shown(twin)}; leave one out"
        if item is None:
            continue  # as if it were not there
        choice = field.containing_oneof
        if choice is not None and (other := choices.setdefault(choice.name, key)) != key:
            return f"{place} and {_shown(other)} exclude each other; leave one out"
        if wrong := _field_mismatch(item, field, place):
            return wrong
    return None


def _kind_of(value: Any) -> str:
    """What a JSON value is, in JSON's words."""
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
        for key, item in value.items():
            place = f"{path}[{_shown(key)}]"
            wrong = _value_mismatch(key, entry.fields_by_name["key"], f"the key of {place}")
            if wrong := wrong or _value_mismatch(item, entry.fields_by_name["value"], place):
                return wrong
            meant = _meant(key, entry.fields_by_name["key"])
            if (twin := twins.setdefault(meant, key)) != key:
                return f"{place} is given twice, also as {_shown(twin)}; leave one out"
        return None
    if not field.is_repeated:
        return _value_mismatch(value, field, path)
    if not isinstance(value, list):
        return f"{path} is {_kind_of(value)}; write a list, such as []"
    return next(filter(None, (_value_mismatch(item, field, f"{path}[{at}]") for at, item in enumerate(value))), None)


def _value_mismatch(value: Any, field: FieldDescriptor, path: str) -> str | None:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return mismatch(value, field.message_type, path)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum_mismatch(value, field.enum_type, path)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return None if isinstance(value, bool) else f"{path} is {_said(value)}; write true or false, without quotes"
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if not isinstance(value, str):
            return f"{path} is {_said(value)}; write text, in quotes"
        if _SURROGATE.search(value):
            return f"{path} has half of a surrogate pair, which is no character; write both halves, or leave it out"
        return None
    if kind in _RANGES:
        least, most = _RANGES[kind]
        number = _whole(value)
        fits = number is not None and least <= number <= most
        return None if fits else f"{path} is {_said(value)}; write a whole number from {least} to {most}"
    number_kind = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = number_kind and abs(value) <= _LARGEST_FLOAT[kind]
    return None if fits else f"{path} is {_said(value)}; write a finite number of at most {_LARGEST_FLOAT[kind]:.3g}"


def _meant(key: str, field: FieldDescriptor) -> str | int:
    """What a key that fits stands for: 01 is 1 where keys are numbers."""
    return int(key) if field.cpp_type in _RANGES else key


def _enum_mismatch(value: Any, choices: EnumDescriptor, path: str) -> str | None:
    if isinstance(value, str) and not _SURROGATE.search(value) and value in choices.values_by_name:
        return None
    number = None if isinstance(value, str) else _whole(value)
    if number in choices.values_by_number:
        return None
    names = [item.name for item in choices.values]
    more = f" and {len(names) - _NAMED_VALUES} more" if len(names) > _NAMED_VALUES else ""
    return f"{path} is {_said(value)}; write one of {', '.join(names[:_NAMED_VALUES])}{more}"


def _whole(value: Any) -> int | None:
    """The whole number that a value is, also in quotes, as JSON of a message has 64 bits, or as 1.0."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text '{_shown(value)}'"
    if isinstance(value, (int, float)):
        return shortened(str(value), _MAX_KEY)
    return _kind_of(value)


def _shown(text: str) -> str:
    return printable(shortened(text, _MAX_KEY))

"""Kinds of values, in words."""

import types
from typing import Any, Literal, Union, get_args, get_origin

_SCALARS: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    types.NoneType: "null",
}


def literal_choices(kind: Any) -> tuple[str, ...]:
    """Return the values of a Literal; empty for any other type."""
    return tuple(str(value) for value in get_args(kind)) if get_origin(kind) is Literal else ()


def admits_null(kind: Any) -> bool:
    """Tell if a value may be null."""
    return types.NoneType in get_args(kind)


def kind_in_words(kind: Any) -> str:
    """Describe the values of a type, for instance "a whole number or null"."""
    if choices := literal_choices(kind):
        return alternatives(choices)
    if get_origin(kind) in (Union, types.UnionType):
        return alternatives(tuple(kind_in_words(part) for part in get_args(kind)))
    if get_origin(kind) in (tuple, list):
        return "a list of texts" if str in get_args(kind) else "a list"
    return _SCALARS.get(kind, getattr(kind, "__name__", str(kind)))


def alternatives(words: tuple[str, ...]) -> str:
    """Join words as "a, b or c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"

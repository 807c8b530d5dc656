"""JSON from outside: export.json, parameters of a configuration, parameters of a call."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from mnserve.text.names import printable, shortened
from mnserve.text.number_text import MAX_DIGITS


def parse_json(text: str, *, strict: bool = False) -> Any:
    """Parses JSON.

    Args:
        text: The JSON.
        strict: Refuse NaN and Infinity, which Python reads beyond the standard, and objects with a repeated name.

    Raises:
        ValueError: The text is no JSON, is nested too deeply, or has a number of too many digits. The message is a
            clause with the fault and its position.
    """
    try:
        return (_STRICT if strict else _DECODER).decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply; write it flatter") from None
    except json.JSONDecodeError as error:
        fault = error.msg[:1].lower() + error.msg[1:].split(" (")[0]
        raise ValueError(
            f"{fault.removesuffix(' at')} at line {error.lineno}, column {error.colno}; correct it there"
        ) from None


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(
            f"the number {shortened(digits, 20)} has {len(digits)} digits, at most {MAX_DIGITS} are read; write a "
            "smaller one"
        )
    return int(digits)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON; write a finite number")


def _object_of_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name '{printable(shortened(name))}' is given twice; leave one out")
        members[name] = value
    return members


_DECODER: Final = json.JSONDecoder(parse_int=_parse_integer)
_STRICT: Final = json.JSONDecoder(
    parse_int=_parse_integer, parse_constant=_refuse_constant, object_pairs_hook=_object_of_unique_names
)

"""JSON that anyone may have written: in export.json, in the parameters of a configuration, in a call."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from mnserve.text.names import printable, shortened
from mnserve.text.number_text import MAX_DIGITS


def parse_json(text: str, *, strict: bool = False) -> Any:
    """The value that ``text`` stands for.

    Args:
        text: The JSON.
        strict: Refuse what Python reads beyond the standard, NaN and Infinity, and objects that have a name twice.

    Raises:
        ValueError: It is no JSON, is nested more deeply than anything that is meant, or has a number of too many
            digits; the message is a clause that says what and where.
    """
    try:
        return (_STRICT if strict else _DECODER).decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply; write it flatter") from None
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:].split(" (")[0]
        raise ValueError(
            f"{what.removesuffix(' at')} at line {error.lineno}, column {error.colno}; correct it there"
        ) from None


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(
            f"the number {shortened(digits, 20)} has {len(digits)} digits, at most {MAX_DIGITS} are read; write a "
            "smaller one"
        )
    return int(digits)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON; write a finite number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name '{printable(shortened(name))}' is given twice; leave one out")
        found[name] = value
    return found


_DECODER: Final = json.JSONDecoder(parse_int=_whole)
_STRICT: Final = json.JSONDecoder(parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_once)

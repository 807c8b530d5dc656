"""Options of a YAML file and of the environment in the form that the command line has them in: text, and lists of it.

YAML makes numbers, dates and truth values of what stands there; what an option is to be is known to the option alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import yaml

from mnserve.errors import SettingsError
from mnserve.text.names import shortened

Kind = Literal["one", "list", "switch"]
"""What an option takes: a value, several, or true and false."""

_TAGS: Final = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
_SWITCHES: Final = {"on": "true", "off": "false", "yes": "true", "no": "false", "true": "true", "false": "false"}


class _TextLoader(yaml.SafeLoader):
    """Reads everything as text, but for what has no value."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own name)
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def file_options(content: str, kinds: Mapping[str, Kind]) -> str:
    """JSON of the options in a file; what is no mapping stays as it is.

    Args:
        content: YAML.
        kinds: What each option takes; others are left as they are.

    Raises:
        SettingsError: It is no YAML, or an option has a value that no option of its kind has.
    """
    found = _read(content, "the file given with --config")
    if not isinstance(found, dict):
        return content
    return json.dumps(
        {
            str(name): _value(f"--{name.replace('_', '-')}", item, kinds[name]) if name in kinds else str(item)
            for name, item in found.items()
        }
    )


def environment_list(variable: str, text: str, *, commas: bool = True) -> str:
    """JSON of the list that a variable means: ``[1, 8]`` as in YAML, or values between spaces and commas.

    Args:
        variable: Its name, for messages.
        text: Its value.
        commas: Whether commas separate.

    Raises:
        SettingsError: It begins like a list of YAML and is none.
    """
    if text.lstrip().startswith("["):
        return json.dumps(_value(variable, _read(text, variable), "list"))
    return json.dumps((text.replace(",", " ") if commas else text).split())


def _read(content: str, where: str) -> Any:
    try:
        return yaml.load(content, Loader=_TextLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise SettingsError(f"{where} is no YAML: {error.problem}{place}; correct it there") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{where} is no YAML: {error}; write it as text") from error
    except RecursionError:
        raise SettingsError(f"{where} is nested too deeply; write one `option: value` a line") from None


def _value(name: str, value: Any, kind: Kind) -> Any:
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [_text(name, item) for item in items]
    text = _text(name, value)
    if kind == "one":
        return text
    if text.lower() not in _SWITCHES:
        raise SettingsError(f"{name} is {shortened(text)!r}; it must be true or false")
    return _SWITCHES[text.lower()]


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise SettingsError(f"{name} has no value; write one, or leave it out")
    kind = "a list" if isinstance(value, list) else "a mapping"
    raise SettingsError(f"{name} is {kind} ({shortened(str(value))}); write one value")

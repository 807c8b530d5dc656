"""Options of a YAML file and of the environment as text, the form that the command line has them in.

YAML turns text into numbers, dates and truth values. Only the option itself knows its type, so everything stays text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import yaml

from mnserve.errors import SettingsError
from mnserve.text.names import shortened

OptionKind = Literal["one", "list", "switch"]
"""Values that an option takes: one, several, or true and false."""

_TAGS: Final = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
_SWITCHES: Final = {"on": "true", "off": "false", "yes": "true", "no": "false", "true": "true", "false": "false"}


class _TextLoader(yaml.SafeLoader):
    """YAML reader that leaves every scalar as text; only a missing value becomes None."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own name)
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def file_options(content: str, kinds: Mapping[str, OptionKind]) -> str:
    """Converts the options in a file to JSON; content that is no mapping stays as it is.

    Args:
        content: YAML.
        kinds: Kind of each option; other keys keep their text.

    Raises:
        SettingsError: The content is no YAML, or an option has a value that no option of its kind has.
    """
    options = _read(content, "the file given with --config")
    if not isinstance(options, dict):
        return content
    return json.dumps(
        {
            str(name): _value(f"--{name.replace('_', '-')}", value, kinds[name]) if name in kinds else str(value)
            for name, value in options.items()
        }
    )


def environment_list(variable: str, text: str, *, commas: bool = True) -> str:
    """Converts the value of an environment variable to a JSON list.

    The value is a YAML list such as ``[1, 8]``, or values between spaces and commas.

    Args:
        variable: Name of the variable, for messages.
        text: Value of the variable.
        commas: Commas separate values.

    Raises:
        SettingsError: The text begins like a YAML list and is none.
    """
    if text.lstrip().startswith("["):
        return json.dumps(_value(variable, _read(text, variable), "list"))
    return json.dumps((text.replace(",", " ") if commas else text).split())


def _read(content: str, source: str) -> Any:
    try:
        return yaml.load(content, Loader=_TextLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise SettingsError(f"{source} is no YAML: {error.problem}{position}; correct it there") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{source} is no YAML: {error}; write it as text") from error
    except RecursionError:
        raise SettingsError(f"{source} is nested too deeply; write one `option: value` a line") from None


def _value(name: str, value: Any, kind: OptionKind) -> Any:
    if kind == "list":
        elements = value if isinstance(value, list) else [value]
        return [_text(name, element) for element in elements]
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

"""Command-line options from the fields of a settings dataclass.

A field without a default is a positional argument. A field with a default is an option. A field that is a settings
dataclass is a group of options. Docstrings of the fields are the help texts.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Collection
from dataclasses import MISSING
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser, DefaultHelpFormatter, Namespace

from mnserve.commands.option_text import OptionKind, environment_list, file_options
from mnserve.commands.option_types import Number
from mnserve.errors import SettingsError

Settings = TypeVar("Settings")


class SettingsParser(ArgumentParser):
    """Parser of the options of one settings class.

    Options in a file and in the environment are read as on the command line. The readers of jsonargparse would refuse a
    list between spaces, a host such as ``127.1`` and the word ``on``. They print the whole usage after a mistake.

    Args:
        settings_class: The dataclass.
        reads_environment: Options are also environment variables, and keys of the file that ``--config`` names.
        with_commas: Names of list options whose values may contain commas, which separate elsewhere in the environment.
        options: Arguments of :class:`jsonargparse.ArgumentParser`.
    """

    def __init__(
        self,
        settings_class: type[Any] | None = None,
        *,
        reads_environment: bool = False,
        with_commas: Collection[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options, formatter_class=_HelpFormatter, default_env=reads_environment)
        self._with_commas = with_commas
        if settings_class is not None:
            _add_options(self, self, settings_class)
        if reads_environment:
            self.add_argument("--config", action="config", help="YAML file with any of these options.")

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """See :meth:`jsonargparse.ArgumentParser.error`."""
        if message.startswith("Unexpected config"):
            message = "the file given with --config is empty or no mapping; write one `option: value` a line"
        super().error(message, ex)

    def parse_path(self, path: Any, *args: Any, **kwargs: Any) -> Namespace:
        """See :meth:`jsonargparse.ArgumentParser.parse_path`."""
        try:
            values: Namespace = super().parse_path(path, *args, **kwargs)
        except UnicodeDecodeError as error:
            raise SettingsError(f"the file {path} given with --config is not UTF-8; save it as UTF-8") from error
        return values

    def parse_string(self, content: str, *args: Any, **kwargs: Any) -> Namespace:
        """See :meth:`jsonargparse.ArgumentParser.parse_string`."""
        values: Namespace = super().parse_string(file_options(content, self._option_kinds()), *args, **kwargs)
        return values

    def _load_env_vars(self, env: Any, defaults: bool) -> Namespace:
        variables = dict(env)
        for name, kind in self._option_kinds().items():
            variable = f"{self.env_prefix}_{name.upper()}"
            if kind == "list" and variable in variables:
                variables[variable] = environment_list(
                    variable, variables[variable], commas=name not in self._with_commas
                )
        return super()._load_env_vars(variables, defaults)

    def _option_kinds(self) -> dict[str, OptionKind]:
        """Lists how many values each option takes, except for --config."""
        return {
            action.dest: "list" if action.nargs == "+" else "switch" if isinstance(action, ActionYesNo) else "one"
            for action in self._actions
            if action.dest != "config"
        }


def settings_from(settings_class: type[Settings], values: Namespace) -> Settings:
    """Builds the settings from parsed options.

    Raises:
        SettingsError: A value cannot work; raised by the settings class.
    """
    hints = get_type_hints(settings_class)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(settings_class):  # type: ignore[arg-type]
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            fields[field.name] = settings_from(hint, values)  # type: ignore[arg-type]
            continue
        value = values[field.name]
        fields[field.name] = tuple(value) if get_origin(hint) is tuple else value
    return settings_class(**fields)


def _add_options(parser: ArgumentParser, group: Any, settings_class: type[Any]) -> None:
    """Adds the fields of a settings class to a group of a parser; fields that are settings themselves get groups."""
    texts = {
        parameter.arg_name: parameter.description
        for parameter in docstring_parser.parse_from_object(settings_class).params
    }
    hints = get_type_hints(settings_class)
    for field in dataclasses.fields(settings_class):
        hint, text = hints[field.name], texts.get(field.name)
        if dataclasses.is_dataclass(hint):
            title = docstring_parser.parse_from_object(hint).short_description or field.name
            _add_options(parser, parser.add_argument_group(title.rstrip(".")), hint)  # type: ignore[arg-type]
            continue
        is_list = get_origin(hint) in (list, tuple)
        value_type = get_args(hint)[0] if is_list else hint
        option = "--" + field.name.replace("_", "-")
        if value_type in (int, float):
            value_type = Number(kind=value_type, option=option, meaning=text or "")
        if field.default is MISSING and field.default_factory is MISSING:
            group.add_argument(field.name, type=value_type, help=text, nargs="+" if is_list else None)
            continue
        default: Any = field.default if field.default_factory is MISSING else field.default_factory()
        if hint is bool:
            yes_no = ActionYesNo(yes_prefix="", no_prefix="no-")
            group.add_argument(option, action=yes_no, default=default, help=text)
        elif is_list:
            group.add_argument(option, type=value_type, nargs="+", default=list(default), help=text)
        else:
            group.add_argument(option, type=value_type, default=default, help=text)


class _HelpFormatter(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help text with types, defaults and environment variables of the options, and examples as they are written."""

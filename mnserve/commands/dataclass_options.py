"""Command-line options from the fields of a settings dataclass.

A field without a default is a positional argument, and so is one whose metadata say ``positional``. Any other field is
an option. A field that is a settings dataclass is a group of options. Docstrings of the fields are the help texts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import MISSING
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser, DefaultHelpFormatter, Namespace

from mnserve.commands.environment import of_services, unknown_variables
from mnserve.commands.option_text import OptionKind, environment_list, file_options
from mnserve.commands.option_types import Number
from mnserve.commands.suggestions import with_suggestion
from mnserve.errors import SettingsError
from mnserve.text.names import printable, shortened
from mnserve.text.text_files import MAX_BYTES

Settings = TypeVar("Settings")


class SettingsParser(ArgumentParser):
    """Parser of the options of one settings class.

    Options in a file and in the environment are read as on the command line. The readers of jsonargparse would refuse a
    list between spaces, a host such as ``127.1`` and the word ``on``. They print the whole usage after a mistake.

    Args:
        settings_class: The dataclass.
        reads_environment: Options are also environment variables, and keys of the file that ``--config`` names.
        with_commas: Names of list options whose values may contain commas, which separate elsewhere in the environment.
        comma_lists: Names of text options that are numbers between commas.
        foreign_prefixes: Prefixes of the variables of other commands.
        options: Arguments of :class:`jsonargparse.ArgumentParser`.
    """

    def __init__(
        self,
        settings_class: type[Any] | None = None,
        *,
        reads_environment: bool = False,
        with_commas: Collection[str] = (),
        comma_lists: Collection[str] = (),
        foreign_prefixes: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options, formatter_class=_HelpFormatter, default_env=reads_environment, allow_abbrev=False)
        self._with_commas = with_commas
        self._foreign = tuple(f"{prefix}_" for prefix in foreign_prefixes)
        self._on_command_line: frozenset[str] = frozenset()
        self._file: str | None = None
        self.warnings: tuple[str, ...] = ()
        """What was left out of the environment, one sentence each; set by ``parse_args``."""
        if settings_class is not None:
            _add_options(self, self, settings_class, comma_lists)
        if reads_environment:
            self.add_argument("--config", action="config", help="YAML file with any of these options.")

    def parse_args(self, args: Sequence[str] | None = None, *more: Any, **named: Any) -> Namespace:  # type: ignore[override]
        """See :meth:`jsonargparse.ArgumentParser.parse_args`. Lists of an option that is given again are joined."""
        words = [] if args is None else list(args)
        given = (self._option_string_actions.get(word.partition("=")[0]) for word in words)
        self._on_command_line = frozenset(action.dest for action in given if action is not None)
        for action in self._actions:
            if isinstance(action, _ListAction):
                action.given = ()
        values: Namespace = super().parse_args(words, *more, **named)
        return values

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """See :meth:`jsonargparse.ArgumentParser.error`."""
        if message.startswith("Unexpected config"):
            message = "the file given with --config is empty or no mapping; write one `option: value` a line"
        super().error(with_suggestion(message, self._option_string_actions, self._file), ex)

    def parse_path(self, path: Any, *args: Any, **kwargs: Any) -> Namespace:
        """See :meth:`jsonargparse.ArgumentParser.parse_path`."""
        with contextlib.suppress(OSError, ValueError):  # the reader of jsonargparse tells what is wrong with the name
            status = os.stat(str(path))
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # a pipe may never be written to
                raise SettingsError(
                    f"the file {path} given with --config is a pipe, a socket or a device; give the name of a file"
                )
            if (size := status.st_size) > MAX_BYTES:
                raise SettingsError(
                    f"the file {path} given with --config has {size} bytes, and no more than {MAX_BYTES} are read; "
                    "is it the right file?"
                )
        self._file = str(path)
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
        kinds = self._option_kinds()
        options = {f"{self.env_prefix}_{name.upper()}": name for name in (*kinds, "config") if name != "help"}
        variables = {name: text for name, text in env.items() if options.get(name) not in self._on_command_line}
        services = of_services(variables)
        self.warnings = tuple(
            f"{variable} is '{printable(shortened(variables.pop(variable)))}', which Kubernetes sets for a Service of "
            f"that name; it is ignored: give --{options[variable].replace('_', '-')}, or rename the Service"
            for variable in sorted(services & options.keys())
        ) + unknown_variables(env, f"{self.env_prefix}_", options, self._foreign)
        for variable, name in options.items():
            if kinds.get(name) == "list" and variable in variables:
                variables[variable] = environment_list(
                    variable, variables[variable], commas=name not in self._with_commas
                )
        try:
            return super()._load_env_vars(variables, defaults)
        except SettingsError as error:
            raise SettingsError(f"in the environment ({self.env_prefix}_…): {error}") from error

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


def _add_options(parser: ArgumentParser, group: Any, settings_class: type[Any], comma_lists: Collection[str]) -> None:
    """Adds the fields of a settings class to a group of a parser; fields that are settings themselves get groups."""
    texts = {
        parameter.arg_name: parameter.description
        for part in reversed(settings_class.__mro__)
        if dataclasses.is_dataclass(part)
        for parameter in docstring_parser.parse_from_object(part).params
    }
    hints = get_type_hints(settings_class)
    for field in dataclasses.fields(settings_class):
        hint, text = hints[field.name], texts.get(field.name)
        if dataclasses.is_dataclass(hint):
            title = docstring_parser.parse_from_object(hint).short_description or field.name
            _add_options(parser, parser.add_argument_group(title.rstrip(".")), hint, comma_lists)  # type: ignore[arg-type]
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
        if field.metadata.get("positional"):
            group.add_argument(field.name, type=value_type, nargs="?", default=default, help=text)
            continue
        if hint is bool:
            yes_no = ActionYesNo(yes_prefix="", no_prefix="no-")
            group.add_argument(option, action=yes_no, default=default, help=text)
        elif is_list:
            group.add_argument(option, action=_ListAction, type=value_type, nargs="+", default=list(default), help=text)
        elif field.name in comma_lists:
            group.add_argument(option, action=_ListAction, type=value_type, default=default, help=text)
        else:
            group.add_argument(option, type=value_type, default=default, help=text)


class _ListAction(argparse.Action):
    """Option of several values: given again, it adds to those before it on the command line, and not to the default.

    The values are words, or numbers between commas in one word.
    """

    given: Sequence[Any] = ()

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Adds the values to the list of the option."""
        self.given = [*self.given, *([values] if self.nargs is None else values)]
        setattr(namespace, self.dest, ",".join(self.given) if self.nargs is None else self.given)


class _HelpFormatter(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help text with types, defaults and environment variables of the options, and examples as they are written."""

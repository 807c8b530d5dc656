"""The command line of mnserve.

Exit codes: 0 done, 1 the work failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from importlib.metadata import version
from typing import Any, Final, NoReturn, get_args, get_origin, get_type_hints

import docstring_parser
from jsonargparse import ActionYesNo, ArgumentParser, DefaultHelpFormatter, Namespace

from mnserve.commands.option_text import Kind, environment_list, file_options
from mnserve.commands.option_types import Number
from mnserve.commands.streams import flushed, show_any_text
from mnserve.errors import MnServeError, SettingsError
from mnserve.text.names import printable


@dataclass(frozen=True, kw_only=True)
class _Command:
    """A command: where it lives, how it is described, and whether its options are environment variables too."""

    module: str
    settings: str
    summary: str
    examples: str
    environment: bool = False


_COMMANDS: Final = {
    "serve": _Command(
        module="mnserve.commands.serve",
        settings="ServeSettings",
        summary="serve every model of a repository over gRPC",
        examples="""\
  mnserve serve build/demo/repository
  mnserve serve models --host 0.0.0.0 --grpc-port 9001 --strict
  mnserve serve models --config serve.yaml
  MNSERVE_LOG_FORMAT=json mnserve serve models --drain-delay 5""",
        environment=True,
    ),
    "predict": _Command(
        module="mnserve.commands.predict",
        settings="PredictSettings",
        summary="classify image files with a served model",
        examples="""\
  mnserve predict digits-mn image.png
  mnserve predict build/demo/repository/digits-mn folder-of-images --top 1 --json
  mnserve predict repository/digits-mn image.png --explain --html why.html""",
    ),
    "bench": _Command(
        module="mnserve.commands.bench",
        settings="BenchSettings",
        summary="time a model, against another one if asked",
        examples="""\
  mnserve bench build/demo/repository digits-mn --against digits-vanilla --batch 1,8,32
  mnserve bench build/demo/repository digits-mn --grpc --concurrency 8""",
    ),
    "tune": _Command(
        module="mnserve.commands.tune",
        settings="TuneSettings",
        summary="find batch size, delay, threads and instances for a bound on latency",
        examples="""\
  mnserve tune build/demo/repository digits-mn --latency-ms 20
  mnserve tune build/demo/repository digits-mn --latency-ms 20 --callers 1,16,64 --dry-run
  mnserve tune models resnet --latency-ms 50 --percentile 95 --rows 4 --json tuning.json --plot tuning.svg""",
    ),
}

_WITH_COMMAS: Final = ("provider_options",)
"""Lists whose values may have commas in them, so that in the environment spaces alone separate."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    show_any_text()
    try:
        return flushed(lambda: _dispatch(words))
    except MnServeError as error:
        print(f"mnserve: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mnserve: interrupted", file=sys.stderr)
        return 130


def _overview() -> argparse.ArgumentParser:
    examples = "\n".join(command.examples.splitlines()[0] for command in _COMMANDS.values())
    parser = argparse.ArgumentParser(
        prog="mnserve",
        description="Serve ONNX models over the Open Inference Protocol, predict with them, time and tune them.",
        epilog=f"examples:\n{examples}\n\n`mnserve COMMAND --help` lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mn-runtime {version('mn-runtime')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in _COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    return parser


def _dispatch(words: list[str]) -> int:
    if not words or words[0] not in _COMMANDS:
        _overview().parse_args(words)  # prints help, the version, or what is wrong, and exits
    return _run(words[0], words[1:])


def _run(name: str, words: list[str]) -> int:
    command = _COMMANDS[name]
    module = importlib.import_module(command.module)
    settings_class: type[Any] = getattr(module, command.settings)
    run: Callable[[Any], int] = module.run
    values = _parser(name, command, settings_class).parse_args(words)
    return run(settings_class(**_field_values(settings_class, values)))


def _parser(name: str, command: _Command, settings_class: type[Any]) -> ArgumentParser:
    """An option for each field of the settings; fields without a default are positional."""
    parser = _Parser(
        prog=f"mnserve {name}",
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=f"examples:\n{command.examples}",
        formatter_class=_HelpFormatter,
        env_prefix="MNSERVE",
        default_env=command.environment,
    )
    _add_options(parser, parser, settings_class)
    if command.environment:
        parser.add_argument("--config", action="config", help="YAML file with any of these options.")
    return parser


def _add_options(parser: ArgumentParser, group: Any, settings_class: type[Any]) -> None:
    """Adds the fields of a settings class to a group of a parser; fields that are settings themselves get groups."""
    texts = {item.arg_name: item.description for item in docstring_parser.parse_from_object(settings_class).params}
    hints = get_type_hints(settings_class)
    for field in dataclasses.fields(settings_class):
        hint, text = hints[field.name], texts.get(field.name)
        if dataclasses.is_dataclass(hint):
            title = docstring_parser.parse_from_object(hint).short_description or field.name
            _add_options(parser, parser.add_argument_group(title.rstrip(".")), hint)  # type: ignore[arg-type]
            continue
        several = get_origin(hint) in (list, tuple)
        kind = get_args(hint)[0] if several else hint
        option = "--" + field.name.replace("_", "-")
        if kind in (int, float):
            kind = Number(kind=kind, option=option, meaning=text or "")
        if field.default is MISSING and field.default_factory is MISSING:
            group.add_argument(field.name, type=kind, help=text, nargs="+" if several else None)
            continue
        default: Any = field.default if field.default_factory is MISSING else field.default_factory()
        if hint is bool:
            yes_no = ActionYesNo(yes_prefix="", no_prefix="no-")
            group.add_argument(option, action=yes_no, default=default, help=text)
        elif several:
            group.add_argument(option, type=kind, nargs="+", default=list(default), help=text)
        else:
            group.add_argument(option, type=kind, default=default, help=text)


class _Parser(ArgumentParser):
    """Reads files and the environment as the command line is read, and says what is wrong with them in a sentence."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """See :meth:`jsonargparse.ArgumentParser.error`."""
        if message.startswith("Unexpected config"):
            message = "the file given with --config is empty or no mapping; write one `option: value` a line"
        super().error(message, ex)

    def parse_path(self, path: Any, *args: Any, **kwargs: Any) -> Namespace:
        """See :meth:`jsonargparse.ArgumentParser.parse_path`."""
        try:
            found: Namespace = super().parse_path(path, *args, **kwargs)
        except UnicodeDecodeError as error:
            raise SettingsError(f"the file {path} given with --config is not UTF-8; save it as UTF-8") from error
        return found

    def parse_string(self, content: str, *args: Any, **kwargs: Any) -> Namespace:
        """See :meth:`jsonargparse.ArgumentParser.parse_string`."""
        found: Namespace = super().parse_string(file_options(content, self._kinds()), *args, **kwargs)
        return found

    def _load_env_vars(self, env: Any, defaults: bool) -> Namespace:
        words = dict(env)
        for name, kind in self._kinds().items():
            variable = f"{self.env_prefix}_{name.upper()}"
            if kind == "list" and variable in words:
                words[variable] = environment_list(variable, words[variable], commas=name not in _WITH_COMMAS)
        return super()._load_env_vars(words, defaults)

    def _kinds(self) -> dict[str, Kind]:
        """What each option takes, but for --config."""
        return {
            action.dest: "list" if action.nargs == "+" else "switch" if isinstance(action, ActionYesNo) else "one"
            for action in self._actions
            if action.dest != "config"
        }


def _field_values(settings_class: type[Any], values: Namespace) -> dict[str, Any]:
    hints = get_type_hints(settings_class)
    result: dict[str, Any] = {}
    for field in dataclasses.fields(settings_class):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            result[field.name] = hint(**_field_values(hint, values))  # type: ignore[operator,arg-type]
            continue
        value = values[field.name]
        result[field.name] = tuple(value) if get_origin(hint) is tuple else value
    return result


class _HelpFormatter(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Types, defaults and environment variables of the options; examples as they are written."""

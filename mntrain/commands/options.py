"""Make command-line options from the fields of a dataclass.

A field with a default is an option, a field without one a positional argument. The help text of a field is its
description in the docstring of the class, followed by the default in brackets where a command line can spell it.

=======================  =============================================================================
type of the field        on the command line
=======================  =============================================================================
``bool``                 a switch; with its opposite ``--no-NAME`` where the default is on
``Literal[...]``         one of these values
``tuple[T, ...]``        a positional argument of one or more words, or an option that may be repeated
``OtherWords``           all words that are neither options nor positional arguments
any other type, or None  one word, converted by the type
=======================  =============================================================================

An :class:`Option` in an ``Annotated`` type names the value and reads it in another way. ``mnexport`` uses this module
too. Nothing heavy is imported, so that ``--help`` stays fast.
"""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import docstring_parser

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class Option:
    """Placeholder and reader of an option, where the type of the field does not suffice.

    Args:
        metavar: placeholder of the value in help texts; None takes the choices, or the name of the field.
        parse: makes the value of the field from a word; None takes the type of the field. A ValueError counts as
            wrong usage, any other error leaves the parser.
        between_commas: True for text that is a list between commas.

    An option that is a list, by ``parse`` or between commas, may be given again: its lists are joined.
    """

    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    between_commas: bool = False


_OTHER_WORDS: Final = "words that no option is named for"
OtherWords = Annotated[tuple[str, ...], _OTHER_WORDS]

# Types of common fields, with their placeholders.
FilePath = Annotated[Path, Option(metavar="FILE")]
FolderPath = Annotated[Path, Option(metavar="FOLDER")]
DataPath = Annotated[str, Option(metavar="PATH")]
Count = Annotated[int, Option(metavar="N")]
RecipeName = Annotated[str, Option(metavar="RECIPE")]
ArtifactPath = Annotated[Path, Option(metavar="ARTIFACT")]
RunPath = Annotated[Path, Option(metavar="RUN")]


@dataclass(frozen=True, kw_only=True)
class _FieldOption:
    """Option or positional argument of a field.

    Args:
        name: name of the field.
        kind: type of one value.
        repeated: True for a field that is a tuple of such values.
        option: placeholder and reading.
        default: value of the field without the option; MISSING for a positional argument.
        text: description of the field.
    """

    name: str
    kind: Any
    repeated: bool
    option: Option
    default: Any
    text: str

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the option or argument to a parser."""
        flag = f"--{self.name.replace('_', '-')}"
        shown = flag if self.default is True else _spelled(self.default)
        text = f"{self.text} ({shown})".strip() if shown else self.text
        details: dict[str, Any] = {"help": text.replace("%", "%%")}
        if self.kind is bool:
            action = argparse.BooleanOptionalAction if self.default else "store_true"
            parser.add_argument(flag, action=action, default=self.default, **details)
            return
        choices = get_args(self.kind) if get_origin(self.kind) is Literal else None
        convert = self.option.parse or (type(choices[0]) if choices else self.kind)
        details |= {"type": convert, "choices": choices, "metavar": self.option.metavar}
        if self.default is MISSING:
            parser.add_argument(self.name, nargs="+" if self.repeated else None, **details)
        elif self.repeated:
            parser.add_argument(flag, action="append", default=list(self.default), **details)
        else:
            joined = self.option.between_commas or get_origin(self.kind) is tuple
            parser.add_argument(flag, action=_JoinedAction if joined else "store", default=self.default, **details)


class _JoinedAction(argparse.Action):
    """Option that is a list in one word: given again, it adds to what was given before, and not to the default."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        if before is not self.default:
            values = f"{before},{values}" if isinstance(values, str) else before + values
        setattr(namespace, self.dest, values)


def add_options(parser: argparse.ArgumentParser, settings: type[Any]) -> None:
    """Add an option or argument to ``parser`` for each field of the dataclass ``settings``."""
    for field_option in _field_options(settings):
        field_option.add_to(parser)


def takes_other_words(settings: type[Any]) -> bool:
    """Tell if the dataclass ``settings`` has a field of the type ``OtherWords``."""
    return _other_words_field(settings) is not None


def read_options(settings: type[Settings], values: argparse.Namespace, other_words: Sequence[str] = ()) -> Settings:
    """Make the settings that a command line asks for.

    Args:
        settings: dataclass whose fields are the options.
        values: result of a parser that :func:`add_options` has extended.
        other_words: words that the parser has no option for.

    Raises:
        Exception: any error that the dataclass raises about its values.
    """
    fields = {}
    for field_option in _field_options(settings):
        value = getattr(values, field_option.name)
        fields[field_option.name] = tuple(value) if field_option.repeated else value
    if (other := _other_words_field(settings)) is not None:
        fields[other] = tuple(other_words)
    return settings(**fields)


def _field_options(settings: type[Any]) -> list[_FieldOption]:
    texts = {item.arg_name: item.description for item in docstring_parser.parse_from_object(settings).params}
    hints = get_type_hints(settings, include_extras=True)
    result = []
    for field in dataclasses.fields(settings):
        kind, extras = _without_annotations(hints[field.name])
        if _OTHER_WORDS in extras:
            continue
        repeated = get_origin(kind) is tuple and not any(extra.parse for extra in extras)
        if repeated:
            kind, extras = _without_annotations(get_args(kind)[0])
        default = field.default if field.default_factory is MISSING else field.default_factory()
        result.append(
            _FieldOption(
                name=field.name,
                kind=kind,
                repeated=repeated,
                option=extras[0] if extras else Option(),
                default=default,
                text=texts.get(field.name) or "",
            )
        )
    return result


def _other_words_field(settings: type[Any]) -> str | None:
    hints = get_type_hints(settings, include_extras=True)
    return next((name for name, hint in hints.items() if hint == OtherWords), None)


def _without_annotations(hint: Any) -> tuple[Any, list[Any]]:
    """Return the type without ``| None`` and ``Annotated``, and the annotations."""
    if type(None) in get_args(hint):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is not Annotated:
        return hint, []
    kind, *extras = get_args(hint)
    return kind, extras


def _spelled(default: Any) -> str:
    """Write a default as a command line would; empty for defaults that no word stands for."""
    if default is MISSING or default is None or isinstance(default, bool):
        return ""
    if isinstance(default, tuple):
        return ",".join(_spelled(value) for value in default)
    return f"{default:g}" if isinstance(default, float) else str(default)

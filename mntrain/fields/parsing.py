"""Reading of words and of recipes into the fields; a wrong word is told with the nearest right one."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from mntrain.errors import ConfigError
from mntrain.fields.kinds import admits_null, alternatives, kind_in_words, literal_choices
from mntrain.fields.listing import RUN_FIELDS, RecipeField, nested_sections, recipe_fields, sections
from mntrain.fields.suggestion import nearest, nearest_fields
from mntrain.models.families import DEFAULT_FAMILY, FAMILIES

_WRONG_VALUE = re.compile(r'key "([^"]+)".*(?:Got value|Given value): (.*)$')
_LISTED = "`mntrain fit RECIPE --fields` lists them all"


class FieldParser(ArgumentParser):
    """Parser of fields, written in full, that reports a wrong one as a :class:`ConfigError`.

    Args:
        prog: command, for messages.
        own: fields that are of no recipe, by their paths.
    """

    def __init__(self, prog: str, own: Mapping[str, RecipeField] | None = None) -> None:
        self._own = own or {}
        super().__init__(prog=prog, exit_on_error=True, add_help=False, allow_abbrev=False)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """See :meth:`jsonargparse.ArgumentParser.error`."""
        message = " ".join(message.split())
        wrong = _WRONG_VALUE.search(message)
        path = "" if wrong is None else wrong.group(1)
        if wrong is not None and (field := self._own.get(path) or recipe_fields().get(path)) is not None:
            raise wrong_value(field, wrong.group(2)) from ex
        if (stray := message.removeprefix("unrecognized arguments: ")) != message:
            raise ConfigError(
                f"{stray.split()[0]!r} is no field and no value of one; write --SECTION.FIELD VALUE ({_LISTED})."
            ) from ex
        raise ConfigError(f"{message.rstrip('.')}.") from ex


@cache
def recipe_parser() -> FieldParser:
    """Return the parser of all fields; to build it takes as long as to read a recipe."""
    parser = FieldParser("mntrain fit RECIPE")
    for field in RUN_FIELDS:
        parser.add_argument(f"--{field.path}", type=field.kind, default=field.default)
    for section, kind in sections().items():
        parser.add_class_arguments(kind, section, instantiate=False)
    return parser


def parse_section(section: str, words: Sequence[str]) -> dict[str, Any]:
    """Read the fields of one section that a command line gives, such as ``--data.path NEW``; no others.

    Raises:
        ConfigError: a word is no such field, or a value is of another type.
    """
    check_words(words, only=section)
    parser = FieldParser(f"--{section}.FIELD")
    parser.add_class_arguments(sections()[section], section, instantiate=False)
    given = parser.parse_args(list(words), defaults=False).as_dict()
    return dict(given.get(section) or {})


def check_words(words: Sequence[str], family: str = DEFAULT_FAMILY, *, only: str | None = None) -> None:
    """Refuse words of a command line that name no field.

    Args:
        words: overrides such as ``--training.epochs 3``.
        family: family of the run, whose settings are suggested first.
        only: the one section whose fields may be given; None for all.

    Raises:
        ConfigError: with the nearest field.
    """
    for word in words:
        if not word.startswith("--") or word == "--":
            continue
        path = word[2:].partition("=")[0]
        if only is not None:
            _check_field_of(only, path)
            continue
        if path in nested_sections():
            first = next(name for name in recipe_fields() if name.startswith(f"{path}."))
            raise ConfigError(f"--{path} is a section and takes no value; set one of its fields, such as --{first}.")
        if path not in recipe_fields():
            raise ConfigError(f"--{path} is no field of a recipe; {_did_you_mean(path, family, '--')}.")


def _check_field_of(section: str, path: str) -> None:
    own = [name for name in recipe_fields() if name.startswith(f"{section}.")]
    if path in own:
        return
    near = [] if path in recipe_fields() else nearest_fields(path, own, section)
    hint = f"did you mean --{near[0]}?" if near else "leave it out"
    raise ConfigError(f"--{path} cannot be set here, where the fields of {section} can, such as --{own[0]}; {hint}")


def check_values(values: Mapping[Any, Any], family: str = DEFAULT_FAMILY) -> None:
    """Refuse names in a recipe that are no fields, and null where a field must have a value.

    Args:
        values: plain values of a recipe; every section is a mapping.
        family: family of the run, whose settings are suggested first.

    Raises:
        ConfigError: with the nearest field or section.
    """
    for name, value in values.items():
        if name not in sections():
            _check_entry(str(name), value, family, is_section=isinstance(value, dict))
            continue
        for leaf, inner in value.items():
            path = f"{name}.{leaf}"
            if path not in nested_sections():
                _check_entry(path, inner, family)
            elif isinstance(inner, dict):
                for own, item in inner.items():
                    _check_entry(f"{path}.{own}", item, family)
            elif inner is not None:
                first = next(known for known in recipe_fields() if known.startswith(f"{path}."))
                raise ConfigError(f"{path} is {inner!r}, but it is a section; set one of its fields, such as {first}.")


def _check_entry(path: str, value: Any, family: str, *, is_section: bool = False) -> None:
    field = recipe_fields().get(path)
    if field is None:
        if is_section and (meant := nearest(path, sections())) is not None:
            raise ConfigError(f"{path} is no section of a recipe; did you mean {meant}?")
        raise ConfigError(f"{path} is no field of a recipe; {_did_you_mean(path, family, '')}.")
    if value is None and not admits_null(field.kind):
        raise wrong_value(field, "null")


def wrong_value(field: RecipeField, value: str) -> ConfigError:
    """Make the error of a value that a field cannot have, with the nearest right one where it has names."""
    choices = field.choices or literal_choices(field.kind)
    near = nearest(value, choices) if choices else None
    hint = "" if near is None else f" Did you mean {near!r}?"
    return ConfigError(f"{field.path} is {value!r}; it must be {kind_in_words(field.kind)}.{hint}")


def _did_you_mean(path: str, family: str, dashes: str) -> str:
    found = nearest_fields(path, recipe_fields().keys(), family if family in FAMILIES else DEFAULT_FAMILY)
    if not found:
        return _LISTED
    return f"did you mean {alternatives(tuple(dashes + name for name in found))}? ({_LISTED})"

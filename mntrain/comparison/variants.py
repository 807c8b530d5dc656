"""Variants to compare: named sets of overrides, those of the families and of similarities after the papers' tables."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from mntrain.comparison.similarity_rows import SIMILARITY_ROWS
from mntrain.errors import ConfigError
from mntrain.models.families import DEFAULT_FAMILY, FAMILIES, SHORT_NAMES, FamilyChoice, read_family
from mntrain.models.family import FamilyVariant

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A row of the table: its name, and the overrides that make it from the recipe.

    Args:
        name: up to 40 letters, digits, '.', '_', '+' or '-'.
        words: overrides for ``mntrain fit``.
    """

    name: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"A variant is called {self.name!r}; it must be 1 to 40 letters, digits, '.', '_', '+' or '-', "
                "starting with a letter or digit."
            )

    @property
    def slug(self) -> str:
        """Name of the variant within the name of a run."""
        return self.name.replace("+", "-")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A field over several values: an ablation (Fig. 8).

    Args:
        field: with its section, for instance meta_neighborhoods.entries.
        values: as written on the command line.
    """

    field: str
    values: tuple[str, ...]

    def variants(self) -> tuple[Variant, ...]:
        """Make a variant of each value, of the family that the field belongs to (Meta-Neighborhoods for any other)."""
        section, _, leaf = self.field.rpartition(".")
        family = SHORT_NAMES.get(section, section)
        family = family if family in FAMILIES else DEFAULT_FAMILY
        return tuple(
            Variant(name=f"{leaf}-{value}", words=("--family", family, f"--{self.field}", value))
            for value in self.values
        )


def _by_table(rows: Iterable[tuple[FamilyVariant, str]]) -> dict[str, Variant]:
    """Make the variants of rows and their families, in the order of the tables."""
    ordered = sorted(rows, key=lambda pair: pair[0].table)
    return {row.name: Variant(name=row.name, words=("--family", family, *row.words)) for row, family in ordered}


# The families' variants, and then those of similarities: two papers, each with tables of its own.
BUILT_IN: dict[str, Variant] = {
    **_by_table((row, name) for name, family in FAMILIES.items() for row in family.variants),
    **_by_table((row, "vanilla") for row in SIMILARITY_ROWS),
}


# The variants that are a family and nothing more, by what ``--family`` calls them.
_BY_FAMILY: dict[FamilyChoice | None, str] = {
    FamilyChoice("vanilla", ifilm=False): "vanilla",
    FamilyChoice("vanilla", ifilm=True): "vanilla+ifilm",
    FamilyChoice("meta_neighborhoods", ifilm=False): "mn",
    FamilyChoice("meta_neighborhoods", ifilm=True): "mn+ifilm",
    FamilyChoice("maxl", ifilm=False): "maxl",
}


def built_in(names: Sequence[str]) -> tuple[Variant, ...]:
    """Find the built-in variants called ``names``; a word that ``--family`` takes is one of them, too.

    Raises:
        ConfigError: a name is not built in.
    """
    own_names = [name if name in BUILT_IN else _BY_FAMILY.get(_family_choice(name), name) for name in names]
    for name in own_names:
        if name not in BUILT_IN:
            matches = get_close_matches(name, BUILT_IN, n=1)
            hint = f" Did you mean {matches[0]!r}?" if matches else ""
            raise ConfigError(
                f"--variants names {name!r}, which is not built in; choose from {', '.join(BUILT_IN)}, or make your "
                f"own with --variant 'NAME=--field value'.{hint}"
            )
    return tuple(BUILT_IN[name] for name in own_names)


def _family_choice(word: str) -> FamilyChoice | None:
    try:
        return read_family(word)
    except ConfigError:
        return None


def custom(text: str) -> Variant:
    """Read a variant from ``NAME=--field value …``.

    Raises:
        ConfigError: the name or the field is missing, or a quote is open.
    """
    name, equals, rest = text.partition("=")
    try:
        words = tuple(shlex.split(rest))
    except ValueError as error:
        raise ConfigError(f"--variant {text!r} cannot be read ({error}); close every quote.") from error
    if not equals or not words or not words[0].startswith("--"):
        raise ConfigError(
            f"--variant is {text!r}; it must be NAME=--field value, as in 'mn-500=--meta_neighborhoods.entries 500'."
        )
    return Variant(name=name.strip(), words=words)


def sweep(text: str) -> Sweep:
    """Read a sweep from ``FIELD=v1,v2``; a field without section is one of meta_neighborhoods.

    Raises:
        ConfigError: the field is missing, or there are fewer than two values, or equal ones.
    """
    field, _, rest = text.partition("=")
    field = field.strip().removeprefix("--")
    values = tuple(value.strip() for value in rest.split(",") if value.strip())
    if not field or len(values) < 2 or len(set(values)) < len(values):
        raise ConfigError(
            f"--sweep is {text!r}; it must be FIELD=v1,v2,… with two or more different values, as in "
            "'meta_neighborhoods.entries=500,1000,5000'."
        )
    return Sweep(field=field if "." in field else f"{DEFAULT_FAMILY}.{field}", values=values)

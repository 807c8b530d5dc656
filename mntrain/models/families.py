"""Registry of the model families.

A new family is one folder beside this file, whose ``family.py`` describes it, and one entry in :data:`FAMILIES`.
"""

from difflib import get_close_matches
from typing import NamedTuple

from mntrain.errors import ConfigError
from mntrain.models.family import Family
from mntrain.models.maxl.family import MAXL
from mntrain.models.meta_neighborhoods.family import META_NEIGHBORHOODS
from mntrain.models.vanilla.family import VANILLA

FAMILIES: dict[str, Family] = {"vanilla": VANILLA, "meta_neighborhoods": META_NEIGHBORHOODS, "maxl": MAXL}
DEFAULT_FAMILY = "meta_neighborhoods"
SHORT_NAMES = {"mn": "meta_neighborhoods"}
"""Other names of families on a command line and in recipes; configurations and artifacts have the family's own."""
_WITH_IFILM = "+ifilm"


class FamilyChoice(NamedTuple):
    """Meaning of a word for a family: the family's own name, and whether the word asks for iFiLM in the backbone."""

    family: str
    ifilm: bool


def family_words() -> tuple[str, ...]:
    """List the words for families: their names, and the short ones."""
    return (*FAMILIES, *SHORT_NAMES, "ifilm")


def read_family(word: str) -> FamilyChoice:
    """Read a word for a family: its name or short name, with ``+ifilm`` or without; ``ifilm`` is vanilla+ifilm.

    Raises:
        ConfigError: no family has the name; the message lists the names.
    """
    spelled = f"vanilla{_WITH_IFILM}" if word == "ifilm" else word
    name = spelled.removesuffix(_WITH_IFILM)
    own = SHORT_NAMES.get(name, name)
    if own not in FAMILIES:
        matches = get_close_matches(
            word, [*family_words(), *(f"{one}{_WITH_IFILM}" for one in family_words()[:-1])], n=1
        )
        hint = f" Did you mean {matches[0]!r}?" if matches else ""
        raise ConfigError(
            f"family is {word!r}, which does not exist; choose from {', '.join(family_words())}, or add +ifilm to one, "
            f"as in mn+ifilm.{hint}"
        )
    return FamilyChoice(family=own, ifilm=spelled.endswith(_WITH_IFILM))


def family_named(name: str) -> Family:
    """Find the family called ``name``.

    Raises:
        ConfigError: no family has the name; the message lists the names.
    """
    if name not in FAMILIES:
        matches = get_close_matches(name, FAMILIES, n=1)
        hint = f" Did you mean {matches[0]!r}?" if matches else ""
        raise ConfigError(f"family is {name!r}, which does not exist; choose from {sorted(FAMILIES)}.{hint}")
    return FAMILIES[name]

"""Short names of families, in the words of a command line and in recipes, read as the families' own names."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mntrain.errors import ConfigError
from mntrain.models.families import SHORT_NAMES, FamilyChoice, read_family

_FAMILY, _IFILM = "--family", "--backbone.ifilm"


class ExpandedWords(NamedTuple):
    """Words with the families' own names, and what the last word for a family means; None without one."""

    words: list[str]
    choice: FamilyChoice | None


class ExpandedValues(NamedTuple):
    """Values of a recipe with the families' own names, and what its word for a family means; None without one."""

    values: dict[str, Any]
    choice: FamilyChoice | None


def expand_words(words: Sequence[str]) -> ExpandedWords:
    """Read ``--family mn+ifilm`` as family and ``--backbone.ifilm true``, and ``--mn.FIELD`` by the family's own name.

    Raises:
        ConfigError: there is no such family.
    """
    expanded: list[str] = []
    choice = None
    place = slice(0, 0)  # of the last word for a family: a later one replaces it
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option == _FAMILY and (equals or (value := next(rest, ""))):
            choice = read_family(value)
            del expanded[place]
            own_words = [_FAMILY, choice.family, *((_IFILM, "true") if choice.ifilm else ())]
            place = slice(len(expanded), len(expanded) + len(own_words))
            expanded += own_words
            continue
        section, dot, field = option.removeprefix("--").partition(".")
        own = SHORT_NAMES.get(section) if dot and option.startswith("--") else None
        expanded.append(word if own is None else f"--{own}.{field}{equals}{value}")
    return ExpandedWords(expanded, choice)


def expand_values(values: Mapping[Any, Any]) -> ExpandedValues:
    """Read the short names in a recipe; see :func:`expand_words`. iFiLM of the family is not yet set.

    Raises:
        ConfigError: there is no such family, or a section stands there under both of its names.
    """
    expanded = dict(values)
    for short, own in SHORT_NAMES.items():
        if short in expanded:
            if own in expanded:
                raise ConfigError(f"{short} and {own} are the same section; join the two.")
            expanded[own] = expanded.pop(short)
    if not isinstance(expanded.get("family"), str):
        return ExpandedValues(expanded, None)
    choice = read_family(expanded["family"])
    backbone = expanded.get("backbone", {})
    if choice.ifilm and backbone.get("ifilm") is False:
        raise ConfigError(f"family is {expanded['family']!r}, but backbone.ifilm is false; leave one of the two out.")
    return ExpandedValues(expanded | {"family": choice.family}, choice)

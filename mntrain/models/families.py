"""Registry of the model families.

A new family is one folder beside this file, whose ``family.py`` describes it, and one entry in :data:`FAMILIES`.
"""

from difflib import get_close_matches

from mntrain.errors import ConfigError
from mntrain.models.family import Family
from mntrain.models.maxl.family import MAXL
from mntrain.models.meta_neighborhoods.family import META_NEIGHBORHOODS
from mntrain.models.vanilla.family import VANILLA

FAMILIES: dict[str, Family] = {"vanilla": VANILLA, "meta_neighborhoods": META_NEIGHBORHOODS, "maxl": MAXL}
DEFAULT_FAMILY = "meta_neighborhoods"


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

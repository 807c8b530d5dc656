"""The nearest right word in the place of a wrong one."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

_MOST = 3
_BEGINNING = 3
"""Letters that a shortened word has at least."""


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known word that ``word`` may mean; case and hyphens do not count. None where none is near."""
    spelled = {_plain(name): name for name in known}
    matches = get_close_matches(_plain(word), spelled, n=1)
    return spelled[matches[0]] if matches else None


def nearest_fields(word: str, known: Collection[str], family: str) -> list[str]:
    """Return the fields that ``word`` may mean, the likeliest first, no more than three.

    Args:
        word: a wrong path of a field, with or without a section.
        known: paths of all fields.
        family: whose settings come first where several sections have a field of the name.
    """
    path = _plain(word)
    section, _, leaf = path.rpartition(".")
    if spelled := [name for name in known if name.replace(".", "_") == path.replace(".", "_")]:
        return spelled
    own_section = [name for name in known if name.rpartition(".")[0] == section and section]
    sections = {name.rpartition(".")[0] for name in known} - {""}
    if section and not own_section and (meant := nearest(section, sections)) is not None:
        own_section = [name for name in known if name.rpartition(".")[0] == meant]
    same = [name for name in known if name.rpartition(".")[2] == leaf]
    if same:
        return _ordered([name for name in same if name in own_section] or same, family)
    of_family = [name for name in known if name.rpartition(".")[0] == family]
    for group, cutoff in ((own_section, 0.6), (of_family, 0.75), (list(known), 0.75)):
        if found := _near_leaves(leaf, group, cutoff):
            return _ordered(found, family)
    return []


def _near_leaves(leaf: str, paths: Sequence[str], cutoff: float) -> list[str]:
    """Return paths whose last word begins with ``leaf``, is nearest to it, or has its initials: lr is learning_rate."""
    leaves = [path.rpartition(".")[2] for path in paths]
    begun = [name for name in leaves if name.startswith(leaf)] if len(leaf) >= _BEGINNING else []
    matches = begun or get_close_matches(leaf, leaves, n=1, cutoff=cutoff)
    if not matches:
        matches = [name for name in leaves if "_" in name and "".join(part[0] for part in name.split("_")) == leaf][:1]
    return [path for path, name in zip(paths, leaves, strict=True) if name in matches]


def _ordered(paths: Sequence[str], family: str) -> list[str]:
    return sorted(paths, key=lambda path: path.rpartition(".")[0] != family)[:_MOST]


def _plain(word: str) -> str:
    return word.casefold().replace("-", "_")

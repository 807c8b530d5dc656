"""Words of a command line that name fields of two sections."""

from __future__ import annotations

from collections.abc import Sequence

from mntrain.errors import ConfigError

_SECTIONS = ("--data.", "--augmentation.")


def split_sections(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part words into those of ``--data.X`` and those of ``--augmentation.X``, with their values.

    Raises:
        ConfigError: a word belongs to neither.
    """
    parts: dict[str, list[str]] = {section: [] for section in _SECTIONS}
    taken: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            taken = next((part for section, part in parts.items() if word.startswith(section)), None)
        if taken is None:
            raise ConfigError(
                f"{word} is no option of `mntrain features`; fields are --data.X and --augmentation.X, and "
                "`mntrain features --help` lists the options."
            )
        taken.append(word)
    return parts[_SECTIONS[0]], parts[_SECTIONS[1]]

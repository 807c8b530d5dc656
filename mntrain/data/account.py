"""Account of what a source held: what was used, what was left out and why, and what its columns mean.

Every source fills one in; the summary of a run and every artifact repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ColumnRole = Literal["target", "feature", "image", "label", "split", "excluded"]
_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """Files, folders, rows or columns that were not used, for one reason.

    Args:
        reason: in words, such as "no image file".
        count: how many.
        examples: the first few by name.
    """

    reason: str
    count: int
    examples: tuple[str, ...] = ()

    @classmethod
    def of(cls, reason: str, names: list[str]) -> Ignored:
        """Count ``names`` and keep the first few."""
        return cls(reason=reason, count=len(names), examples=tuple(names[:_EXAMPLES]))


@dataclass(frozen=True, kw_only=True)
class ColumnAccount:
    """One column of a table or manifest.

    Args:
        name: in the file.
        role: what it is used for.
        kind: of its values: number, category, value or class.
        missing: rows without a value.
        categories: distinct values of a category or class; empty for numbers.
        note: further words, such as why it is excluded or what fills in missing values.
    """

    name: str
    role: ColumnRole
    kind: str
    missing: int = 0
    categories: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class SourceAccount:
    """What a source held, and what became of it.

    Args:
        location: path or name that was read.
        layout: a sentence on how files, folders or columns were understood.
        splits: a sentence on where the splits come from.
        ignored: everything that was found there and not used.
        sizes: images of each size as found, "WIDTHxHEIGHT" → count.
        colors: images of each colour mode as found, such as "L" or "RGB" → count.
        pixels: a sentence on what became of sizes and colours.
        columns: of a table or manifest.
    """

    location: str = ""
    layout: str = ""
    splits: str = ""
    ignored: tuple[Ignored, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    colors: Mapping[str, int] = field(default_factory=dict)
    pixels: str = ""
    columns: tuple[ColumnAccount, ...] = ()

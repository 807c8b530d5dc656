"""Leaks: examples that stand in two splits, so that a score counts what was learned by heart."""

from __future__ import annotations

from mntrain.data.duplicates import SharedExamples
from mntrain.data.images import ImageData
from mntrain.data.tables import TableData
from mntrain.errors import DataError

_NAMED = 2


def check_leaks(data: ImageData | TableData) -> None:
    """Refuse data with equal examples in two splits.

    Raises:
        DataError: there are some; the message counts them and names a few.
    """
    leaks = describe_leaks(data)
    if leaks:
        raise DataError(
            f"data.leaks is 'refuse', but {'; '.join(leaks)}. Remove them from one of the splits, or set data.leaks "
            "to 'warn' or 'allow'."
        )


def describe_leaks(data: ImageData | TableData) -> list[str]:
    """Say for each two splits how many examples they share, with the names of a few; nothing where none do."""
    noun = "image" if isinstance(data, ImageData) else "row"
    return [_sentence(data, shared, noun) for shared in data.duplicates.across]


def _sentence(data: ImageData | TableData, shared: SharedExamples, noun: str) -> str:
    examples = ", ".join(
        f"{data.place(shared.second, second)} = {data.place(shared.first, first)}"
        for first, second in shared.pairs[:_NAMED]
    )
    plural = f"{noun} is" if shared.count == 1 else f"{noun}s are"
    return f"{shared.count:,} {shared.second} {plural} also in {shared.first} ({examples})"

"""Report of progress: a function that takes one line of text a step."""

from collections.abc import Callable

OnProgress = Callable[[str], None]


def no_progress(message: str) -> None:
    """Report nothing."""

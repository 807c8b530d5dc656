"""Options that several measuring commands have: numbers, lists of numbers, shapes of inputs, plots, engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mnserve.errors import SettingsError
from mnserve.text.names import shortened
from mnserve.text.number_text import MAX_DIGITS

MAX_SECONDS: Final = 86_400
"""Longest time that a measurement or an answer may take."""

_PLOTS = (".png", ".svg", ".pdf")
_MAX_SIZE: Final = 2**31 - 1
"""Largest dimension or number of rows."""
_MAX_CALLERS: Final = 1024
_MAX_ROUNDS: Final = 1000
_MAX_SEED: Final = 2**63 - 1


def check_option(option: str, value: float, holds: Callable[[float], bool], expected: str) -> None:
    """Refuses a value that cannot work.

    Raises:
        SettingsError: ``holds`` is false for it.
    """
    if not holds(value):
        raise SettingsError(f"{option} is {value}; it must be {expected}")


def check_seconds(option: str, value: float) -> None:
    """Refuses a time that is no measurement's.

    Raises:
        SettingsError: it is not above 0, or more than a day.
    """
    expected = f"a number above 0, in seconds, and at most {MAX_SECONDS} ({MAX_SECONDS // 3600} hours)"
    check_option(option, value, lambda v: 0 < v <= MAX_SECONDS, expected)


def check_callers(option: str, value: int) -> None:
    """Refuses a number of callers that one process cannot be.

    Raises:
        SettingsError: there are none, or too many.
    """
    check_option(option, value, lambda v: 1 <= v <= _MAX_CALLERS, f"at least 1 and at most {_MAX_CALLERS}")


def check_rounds(option: str, value: int, advice: str) -> None:
    """Refuses a number of rounds that nobody waits for.

    Raises:
        SettingsError: there are none, or too many; the message ends with the advice.
    """
    expected = f"at least 1 and at most {_MAX_ROUNDS}; {advice}"
    check_option(option, value, lambda v: 1 <= v <= _MAX_ROUNDS, expected)


def check_seed(value: int) -> None:
    """Refuses a seed that no generator takes.

    Raises:
        SettingsError: it is below 0 or too large.
    """
    check_option("--seed", value, lambda v: 0 <= v <= _MAX_SEED, f"at least 0 and at most {_MAX_SEED}")


def whole_numbers(option: str, text: str, *, what: str, example: str) -> tuple[int, ...]:
    """Numbers above 0 that are separated by commas, in the order given, each once.

    Args:
        option: name of the option, for the message.
        text: its value.
        what: what the numbers are, in the plural.
        example: a value that would do.

    Raises:
        SettingsError: the text is something else.
    """
    numbers: dict[int, None] = {}
    for part in text.split(","):
        if not _is_size(part):
            raise SettingsError(
                f"{option} {shortened(text)!r} is not a list of {what}: {shortened(part.strip())!r} is not a whole "
                f"number from 1 to {_MAX_SIZE}; write for instance {option} {example}"
            )
        numbers[int(part)] = None
    return tuple(numbers)


def input_shapes(items: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Input name -> dimensions without the batch, from values of ``--shape`` such as ``image:3,32,32``.

    Raises:
        SettingsError: an item is something else, or an input is named twice.
    """
    result: dict[str, tuple[int, ...]] = {}
    for item in items:
        name, _, dims = item.rpartition(":")
        parts = [part.strip() for part in dims.split(",")]
        if not name or not all(map(_is_size, parts)):
            raise SettingsError(
                f"--shape {shortened(item)!r} is not NAME:DIM,DIM with dimensions from 1 to {_MAX_SIZE}; "
                "write for instance --shape image:3,32,32 (without the batch)"
            )
        if name in result:
            raise SettingsError(f"--shape names the input {shortened(name)!r} twice; give each input one shape")
        result[name] = tuple(int(part) for part in parts)
    return result


def _is_size(text: str) -> bool:
    digits = text.strip()
    return digits.isdecimal() and len(digits) <= MAX_DIGITS and 1 <= int(digits) <= _MAX_SIZE


def check_plot(path: str | None) -> None:
    """Refuses a plot whose format its ending does not tell.

    Raises:
        SettingsError: names the ending that is missing.
    """
    if path is not None and Path(path).suffix.lower() not in _PLOTS:
        raise SettingsError(f"--plot {path!r} has no known ending; use a name that ends in .png, .svg or .pdf")


def engine_words(
    threads: int, providers: Sequence[str], provider_options: Sequence[str], cuda_graph_batches: Sequence[int]
) -> list[str]:
    """How `mnserve serve` is told to set up its engines."""
    words = ["--intra-op-threads", str(threads), "--providers", *providers]
    if provider_options:
        words += ["--provider-options", *provider_options]
    if cuda_graph_batches:
        words += ["--cuda-graph-batches", *map(str, cuda_graph_batches)]
    return words

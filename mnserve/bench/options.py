"""Checks and parsers of options that bench and tune share: numbers, lists of numbers, input shapes, plots, engines."""

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


def is_file_name(name: str) -> bool:
    """Tells whether a name given for a model is that of an ONNX file."""
    return name.lower().endswith(".onnx")


def check_option(option: str, value: float, holds: Callable[[float], bool], expected: str) -> None:
    """Checks the value of an option.

    Raises:
        SettingsError: ``holds`` is false for the value.
    """
    if not holds(value):
        raise SettingsError(f"{option} is {value}; it must be {expected}")


def check_seconds(option: str, value: float) -> None:
    """Checks a time in seconds.

    Raises:
        SettingsError: The time is not above 0, or more than a day.
    """
    expected = f"a number above 0, in seconds, and at most {MAX_SECONDS} ({MAX_SECONDS // 3600} hours)"
    check_option(option, value, lambda v: 0 < v <= MAX_SECONDS, expected)


def check_callers(option: str, value: int) -> None:
    """Checks a number of concurrent callers.

    Raises:
        SettingsError: The number is below 1 or too large.
    """
    check_option(option, value, lambda v: 1 <= v <= _MAX_CALLERS, f"at least 1 and at most {_MAX_CALLERS}")


def check_rounds(option: str, value: int, advice: str) -> None:
    """Checks a number of rounds.

    Raises:
        SettingsError: The number is below 1 or too large; the message ends with the advice.
    """
    expected = f"at least 1 and at most {_MAX_ROUNDS}; {advice}"
    check_option(option, value, lambda v: 1 <= v <= _MAX_ROUNDS, expected)


def check_seed(value: int) -> None:
    """Checks the seed of a random generator.

    Raises:
        SettingsError: The seed is below 0 or too large.
    """
    check_option("--seed", value, lambda v: 0 <= v <= _MAX_SEED, f"at least 0 and at most {_MAX_SEED}")


def whole_numbers(option: str, text: str, *, what: str, example: str) -> tuple[int, ...]:
    """Parses whole numbers above 0 between commas, in the given order and without repetitions.

    Args:
        option: Name of the option, for the message.
        text: Value of the option.
        what: Noun for the numbers in the plural, for the message.
        example: Valid value, for the message.

    Raises:
        SettingsError: The text is no such list.
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


def input_shapes(values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parses values of ``--shape`` such as ``image:3,32,32``.

    Returns:
        Input name -> dimensions without the batch.

    Raises:
        SettingsError: A value has another form, or an input is named twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in values:
        name, _, dims = text.rpartition(":")
        parts = [part.strip() for part in dims.split(",")]
        if not name or not all(map(_is_size, parts)):
            raise SettingsError(
                f"--shape {shortened(text)!r} is not NAME:DIM,DIM with dimensions from 1 to {_MAX_SIZE}; "
                "write for instance --shape image:3,32,32 (without the batch)"
            )
        if name in shapes:
            raise SettingsError(f"--shape names the input {shortened(name)!r} twice; give each input one shape")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def _is_size(text: str) -> bool:
    digits = text.strip()
    return digits.isdecimal() and len(digits) <= MAX_DIGITS and 1 <= int(digits) <= _MAX_SIZE


def check_plot(path: str | None) -> None:
    """Checks that the ending of a plot file selects a format.

    Raises:
        SettingsError: The ending is unknown; the message lists the known ones.
    """
    if path is not None and Path(path).suffix.lower() not in _PLOTS:
        raise SettingsError(f"--plot {path!r} has no known ending; use a name that ends in .png, .svg or .pdf")


def engine_arguments(
    threads: int, providers: Sequence[str], provider_options: Sequence[str], cuda_graph_batches: Sequence[int]
) -> list[str]:
    """Returns arguments of `mnserve serve` that set up its engines."""
    arguments = ["--intra-op-threads", str(threads), "--providers", *providers]
    if provider_options:
        arguments += ["--provider-options", *provider_options]
    if cuda_graph_batches:
        arguments += ["--cuda-graph-batches", *map(str, cuda_graph_batches)]
    return arguments

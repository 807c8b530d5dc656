"""Read lists that stand in one word of the command line, separated by commas."""

from collections.abc import Callable

from mntrain.errors import ConfigError


def names(text: str) -> tuple[str, ...]:
    """Split a text into names without white space around them; empty ones are left out."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def whole_numbers(option: str, example: str) -> Callable[[str], tuple[int, ...]]:
    """Make the reader of an option that takes whole numbers.

    Args:
        option: name of the option, for errors.
        example: list of that kind, for errors.
    """

    def parse(text: str) -> tuple[int, ...]:
        try:
            return tuple(int(number) for number in text.split(","))
        except ValueError as error:
            raise _wrong_list(option, text, "whole numbers", example) from error

    return parse


def numbers(option: str, example: str) -> Callable[[str], tuple[float, ...]]:
    """Make the reader of an option that takes numbers; see :func:`whole_numbers`."""

    def parse(text: str) -> tuple[float, ...]:
        try:
            return tuple(float(number) for number in text.split(","))
        except ValueError as error:
            raise _wrong_list(option, text, "numbers", example) from error

    return parse


def _wrong_list(option: str, text: str, kind: str, example: str) -> ConfigError:
    return ConfigError(f"{option} is {text!r}; it must be {kind} separated by commas, as in {example}.")

"""Where the choices of a structured request come from."""

import random
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Dice", "ProviderDice", "RandomDice", "pick"]

_Item = TypeVar("_Item")


class Dice(Protocol):
    """Makes choices."""

    def integer(self, low: int, high: int) -> int:
        """One of low..high, both of them included."""

    def data(self, count: int) -> bytes:
        """At most so many bytes."""


class ProviderDice:
    """Choices by a fuzzer, which finds out which of them lead where.

    Args:
        provider: ``atheris.FuzzedDataProvider``.
    """

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def integer(self, low: int, high: int) -> int:
        """See :class:`Dice`."""
        return int(self._provider.ConsumeIntInRange(low, high))

    def data(self, count: int) -> bytes:
        """See :class:`Dice`."""
        return bytes(self._provider.ConsumeBytes(count))


class RandomDice:
    """Choices by chance.

    Args:
        seed: Of the generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """See :class:`Dice`."""
        return self._random.randint(low, high)

    def data(self, count: int) -> bytes:
        """See :class:`Dice`."""
        return self._random.randbytes(self._random.randint(0, count))


def pick(dice: Dice, items: Sequence[_Item]) -> _Item:
    """One of ``items``."""
    return items[dice.integer(0, len(items) - 1)]

"""Sources of the choices of a structured request."""

import random
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

_Item = TypeVar("_Item")


class Dice(Protocol):
    """Source of choices."""

    def integer(self, low: int, high: int) -> int:
        """Choose an integer from low to high, both included."""

    def data(self, count: int) -> bytes:
        """Choose bytes, at most ``count`` of them."""


class ProviderDice:
    """Takes choices from a fuzzer, which learns the effect of each.

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
    """Draws choices at random.

    Args:
        seed: seed of the generator.
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
    """Choose one of ``items``."""
    return items[dice.integer(0, len(items) - 1)]

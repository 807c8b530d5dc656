"""Cost of a static form of the adaptation for one query: multiplications, and numbers that are read.

B queries, S entries, C classes, d features, R rank. A form reads its constant tables once for a batch and multiplies
them with every row of it.
"""

from dataclasses import asdict, dataclass

# A CPU core multiplies roughly this many numbers in the time in which it fetches one from beyond its caches. Nothing
# but the order of forms depends on it.
_MULTIPLICATIONS_A_NUMBER = 10
# The batch that forms are compared at.
_BATCH = 8
_NUMBER_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of the head alone, without the backbone.

    Args:
        multiplications: for every query.
        table_numbers: constants that are read once for every batch.
    """

    multiplications: int
    table_numbers: int

    @property
    def weight(self) -> float:
        """Cost as one number: multiplications a query at batch 8, reading the tables included."""
        return self.multiplications + _MULTIPLICATIONS_A_NUMBER * self.table_numbers / _BATCH

    @property
    def table_bytes(self) -> int:
        """Size of the tables as 32-bit floats, bytes."""
        return _NUMBER_BYTES * self.table_numbers

    def to_dict(self) -> dict[str, int]:
        """Return plain values for ``export.json``."""
        return asdict(self) | {"table_bytes": self.table_bytes}


@dataclass(frozen=True, kw_only=True)
class HeadSize:
    """Sizes that the cost of a head depends on.

    Args:
        entries: S.
        classes: C.
        features: d.
        steps: inner steps.
        shared_keys: whether attention and classifier read the same table of keys.
    """

    entries: int
    classes: int
    features: int
    steps: int = 1
    shared_keys: bool = True

    @property
    def _keys(self) -> int:
        return self.entries * self.features * (1 if self.shared_keys else 2)

    @property
    def _labels(self) -> int:
        return self.entries * self.classes

    def exact(self) -> Cost:
        """Cost of the explicit or factored form: every step mixes all keys for every class.

        From the second step on it compares them, too.
        """
        mixing = (2 * self.steps - 1) * self._labels * self.features
        return Cost(multiplications=self._keys + mixing + 2 * self._labels, table_numbers=self._keys + 2 * self._labels)

    def rank_one(self) -> Cost:
        """Cost of one step of a dot-product classifier: products with two tables."""
        return Cost(multiplications=self._keys + self._labels, table_numbers=self._keys + self._labels)

    def norm(self, rank: int) -> Cost:
        """Cost of one step of which only the norm is approximated: R directions over all classes instead of C·d."""
        read = self._keys + 2 * self._labels + self.entries * rank
        return Cost(multiplications=read, table_numbers=read)

    def subspace(self, rank: int) -> Cost:
        """Cost with weights within R directions over all classes: only the attention reads the keys themselves.

        The first step has a table of its own; all further ones compare with a second and mix a third.
        """
        others = self.entries * self.features + 2 * self._labels
        directions = self.entries * rank
        return Cost(
            multiplications=others + (2 * self.steps - 1) * directions,
            table_numbers=others + (1 if self.steps == 1 else 3) * directions,
        )

"""Units of a comparison: what varies from one to the next, and what is tested over."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mntrain.heads.record import HeadRecord


@dataclass(frozen=True, kw_only=True)
class Units:
    """Stores; or the seeds, where there is one store.

    Seeds share the rows of a store, and a method without draws answers alike with each of them. They say nothing of
    other data, so scores are averaged over the seeds of a store before anything is told or tested over stores.

    Args:
        stores: folders.
        seeds: of every method on every store.
    """

    stores: tuple[str, ...]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, records: Sequence[HeadRecord]) -> Units:
        """Return the units of all records."""
        return cls(
            stores=tuple(dict.fromkeys(record["store"]["path"] for record in records)),
            seeds=tuple(dict.fromkeys(record["seed"] for record in records)),
        )

    @property
    def are_stores(self) -> bool:
        """Whether a unit is a store, and no seed of one."""
        return len(self.stores) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all units."""
        return self.stores if self.are_stores else tuple(_seed_of(self.stores[0], seed) for seed in self.seeds)

    def name(self, record: HeadRecord) -> str:
        """Name the unit of a record."""
        path: str = record["store"]["path"]
        return path if self.are_stores else _seed_of(path, record["seed"])

    def means(self, values: Iterable[tuple[HeadRecord, Any]]) -> dict[str, float]:
        """Average a value of records within each unit; a unit whose values are all None is left out."""
        found: dict[str, list[float]] = {}
        for record, value in values:
            if value is not None:
                found.setdefault(self.name(record), []).append(value)
        return {unit: statistics.mean(of_unit) for unit, of_unit in found.items()}

    def accuracies(self, records: Sequence[HeadRecord], group: str, scores: str = "scores") -> dict[str, float]:
        """Return the test accuracy on a group in each unit that has examples of it.

        Args:
            records: of one method.
            group: of classes.
            scores: of the head itself, or ``base_scores`` of the classifier that it is compared with.
        """
        return self.means((record, record[scores]["test"].get(group, {}).get("accuracy")) for record in records)


def spread_of(values: Sequence[float]) -> float | None:
    """Return the sample deviation; None for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def _seed_of(store: str, seed: int) -> str:
    return f"{store} seed {seed}"

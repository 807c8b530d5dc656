"""Sweeps of a setting that several heads share, as means over stores or seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mntrain.heads.record import HeadRecord
from mntrain.heads.units import Units


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedSweep:
    """One setting of a method, over the values that all its heads have scores for.

    A grid that is widened has more values on some stores than on others.

    Args:
        method: name.
        setting: name of the setting.
        values: that all heads share, rising.
        chosen: value of each head; None where its grid has it not.
        units: stores or seeds.
        sweeps: each head's record with its sweep, as ``head.json`` has them.
    """

    method: str
    setting: str
    values: tuple[float, ...]
    chosen: tuple[float | None, ...]
    units: Units
    sweeps: tuple[tuple[HeadRecord, Mapping[str, Any]], ...]

    def means(self, part: str, group: str, within: str | None = None) -> tuple[float, ...]:
        """Return the mean accuracy for each value over the units that have examples; empty where none has.

        Args:
            part: validation or test.
            group: of classes.
            within: only units that have examples of this group too.
        """
        having = self.units_with(part, within or group)
        sweeps = [(record, sweep) for record, sweep in self.sweeps if self.units.name(record) in having]
        if not sweeps:
            return ()
        return tuple(
            statistics.mean(
                self.units.means(
                    (record, sweep[part][sweep["values"].index(value)].get(group, {}).get("accuracy"))
                    for record, sweep in sweeps
                ).values()
            )
            for value in self.values
        )

    def units_with(self, part: str, group: str) -> frozenset[str]:
        """Name the units that have examples of a group."""
        return frozenset(self.units.name(record) for record, sweep in self.sweeps if group in sweep[part][0])


def shared_sweeps(records: Sequence[HeadRecord]) -> tuple[SharedSweep, ...]:
    """Gather the sweeps of each method; those whose heads have no value in common are left out."""
    units = Units.of(records)
    found: dict[tuple[str, str], list[tuple[HeadRecord, Mapping[str, Any]]]] = {}
    for record in records:
        for sweep in record["sweeps"]:
            found.setdefault((record["method"], sweep["name"]), []).append((record, sweep))
    gathered = []
    for (method, setting), sweeps in found.items():
        values = set.intersection(*(set(sweep["values"]) for _, sweep in sweeps))
        if values:
            gathered.append(
                SharedSweep(
                    method=method,
                    setting=setting,
                    values=tuple(sorted(values)),
                    chosen=tuple(sweep["chosen"] for _, sweep in sweeps),
                    units=units,
                    sweeps=tuple(sweeps),
                )
            )
    return tuple(gathered)

"""What a machine with one GPU and cores to spare would answer, by number of front ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capacity_model.costs import Costs, Runs
from capacity_model.simulation import Outcome, Setup, simulate

CALLERS = 64
"""Callers for each front end where as much as possible is to be answered."""
EASE = 0.8
"""Share of the largest rate at which latencies are told."""


@dataclass(frozen=True)
class Network:
    """A network on a GPU: a run takes `first` seconds for one row, and `more` for each further one."""

    first: float
    more: float

    @property
    def label(self) -> str:
        """Name for tables and pictures."""
        return f"{self.first * 1e6:,.0f} µs + {self.more * 1e6:g} µs a row"


NETWORKS = (Network(200e-6, 2e-6), Network(1e-3, 10e-6), Network(2e-3, 50e-6))
"""Networks of the table: one that is small, one like ResNet-56 on small images, and one that is large."""
FRONT_ENDS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one GPU answers with some front ends.

    Args:
        network: what it runs.
        front_ends: processes that take calls in.
        full: with :data:`CALLERS` callers for each front end.
        eased: with :data:`EASE` of that rate, where calls come by chance.
    """

    network: Network
    front_ends: int
    full: Outcome
    eased: Outcome


def gpu_rate(network: Network, max_batch: int) -> float:
    """Rows a second of a GPU that always has full batches."""
    return max_batch / Runs.line(network.first, network.more).of(max_batch)


def front_end_seconds(costs: Costs) -> float:
    """CPU of a front end's event loop for a call where batches are large: one turn to take it in."""
    return costs.front_end.turn + costs.front_end.call


def front_ends_needed(costs: Costs, network: Network, max_batch: int) -> int:
    """Rule of thumb: front ends that take in as much as one GPU answers."""
    return math.ceil(gpu_rate(network, max_batch) * front_end_seconds(costs))


def forecast(
    costs: Costs, *, networks: Sequence[Network] = NETWORKS, front_ends: Sequence[int] = FRONT_ENDS, max_batch: int
) -> list[Forecast]:
    """Simulate each network behind each number of front ends; callers are elsewhere, and a core is always free."""
    found = []
    for network in networks:
        ready = costs.with_runs(Runs.line(network.first, network.more, on_core=False))
        for count in front_ends:
            base = Setup(
                costs=ready,
                front_ends=count,
                callers=CALLERS * count,
                spread=[CALLERS] * count,
                client_here=False,
                max_batch=max_batch,
                seconds=0.3,
                warm_up=0.1,
            )
            full = simulate(base)
            eased = simulate(replace(base, callers=0, spread=(), rate=EASE * full.rate))
            found.append(Forecast(network=network, front_ends=count, full=full, eased=eased))
    return found

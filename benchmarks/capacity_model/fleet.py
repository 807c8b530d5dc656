"""How many servers answer so many calls a second, with a share of them lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from capacity_model.costs import Costs, Runs
from capacity_model.prediction import CALLERS, EASE, Network, front_ends_needed
from capacity_model.simulation import Outcome, Setup, simulate

MOST_FRONT_ENDS = 8
"""Most front ends that a server takes by itself."""
_OTHER_PROCESSES = 1.5
"""Cores of a server beside its front ends: the engine process, and half a core for gRPC's threads and the rest."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What callers ask for, and what may be lost.

    Args:
        rate: calls a second.
        zones: parts of the fleet that fail as a whole; with one of them lost, no server is over :data:`EASE`.
        request, answer: bytes of a call on the network.
    """

    rate: float
    zones: int = 3
    request: int = 3500
    answer: int = 300

    def __post_init__(self) -> None:
        if self.zones < 2:
            raise ValueError(f"zones is {self.zones}; a fleet that may lose one of them has at least 2")


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Servers for a demand, each with a GPU of its own.

    Args:
        network: what they run.
        front_ends: processes of a server that take calls in.
        full: a server with as many callers as it can use.
        servers: number of them, the same in each zone.
        usual, reduced: a server in usual times, and with a zone lost.
        demand: what they are for.
    """

    network: Network
    front_ends: int
    full: Outcome
    servers: int
    usual: Outcome
    reduced: Outcome
    demand: Demand

    @property
    def cores(self) -> int:
        """Cores of a server."""
        return math.ceil(self.front_ends + _OTHER_PROCESSES)

    @property
    def in_progress(self) -> float:
        """Calls of the whole fleet that are in progress in usual times (Little's law)."""
        return self.demand.rate * self.usual.mean

    @property
    def gigabits(self) -> tuple[float, float]:
        """Gigabits a second of all requests, and of all answers."""
        bits = 8e-9 * self.demand.rate
        return bits * self.demand.request, bits * self.demand.answer

    def seconds_to_fill(self, rows: int) -> float:
        """Seconds until queues of so many rows are full where two zones of the fleet are lost; infinite for never."""
        left = self.servers * (self.demand.zones - 2) / self.demand.zones
        if not left:
            return 0.0
        surplus = self.demand.rate / left - self.full.rate
        return rows / surplus if surplus > 0 else math.inf


def servers_needed(demand: Demand, full_rate: float) -> int:
    """Servers of which any zone may be lost, so that no other is over :data:`EASE` of its largest rate."""
    left = demand.rate / (EASE * full_rate)
    in_a_zone = math.ceil(left / (demand.zones - 1) - 1e-9)
    return demand.zones * in_a_zone


def plan_fleet(costs: Costs, network: Network, demand: Demand, *, max_batch: int, seconds: float = 0.3) -> Fleet:
    """Simulate a server at its largest rate, in usual times, and with a zone lost.

    Args:
        costs: costs of a server's parts.
        network: what it runs on its GPU.
        demand: what is asked of the whole fleet.
        max_batch: most rows of a run.
        seconds: simulated time of each load.
    """
    front_ends = min(front_ends_needed(costs, network, max_batch), MOST_FRONT_ENDS)
    base = Setup(
        costs=costs.with_runs(Runs.line(network.first, network.more, on_core=False)),
        front_ends=front_ends,
        callers=CALLERS * front_ends,
        spread=[CALLERS] * front_ends,
        client_here=False,
        max_batch=max_batch,
        seconds=seconds,
        warm_up=seconds / 3,
    )
    full = simulate(base)
    servers = servers_needed(demand, full.rate)

    def with_servers(count: float) -> Outcome:
        return simulate(replace(base, callers=0, spread=(), rate=demand.rate / count))

    return Fleet(
        network=network,
        front_ends=front_ends,
        full=full,
        servers=servers,
        usual=with_servers(servers),
        reduced=with_servers(servers * (demand.zones - 1) / demand.zones),
        demand=demand,
    )

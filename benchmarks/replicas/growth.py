"""Watch the number of replicas on Ray follow the rows that wait.

    PYTHONPATH=benchmarks python -m replicas.growth
    PYTHONPATH=benchmarks python -m replicas.growth --slices 10 --rest 900 --json growth.json

An application may have one or two replicas on a cluster of two nodes on this machine. Callers load it through a proxy
for some slices of --seconds each, and then leave it alone until it has one replica again, or for --rest seconds. Ray
Serve waits 30 s before it adds a replica, and 600 s before it takes one away. Needs the extra `ray`.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, positive_integer, script_parser
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mnserve.client.balancing import balanced_target
from mntrain.result_table import ResultTable
from replicas.cluster import RayCluster, ray_cluster
from replicas.load import measure
from replicas.model import request_of, write_model

_APPLICATION = "growing"
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was seen at one time.

    Attributes:
        seconds: time since the load began.
        callers: calls at a time until then.
        replicas: replicas that the list has.
        rate: answers a second; 0 without callers.
    """

    seconds: float
    callers: int
    replicas: int
    rate: float


def main() -> int:
    """Run the benchmark; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--callers", type=positive_integer, default=64, help="calls at a time (64)")
    parser.add_argument("--depth", type=positive_integer, default=32, help="layers of the model (32)")
    parser.add_argument("--target", type=positive_integer, default=8, help="rows that may wait at a replica (8)")
    parser.add_argument("--seconds", type=positive_integer, default=10, help="duration of a slice of load (10)")
    parser.add_argument("--slices", type=positive_integer, default=9, help="slices of load (9)")
    parser.add_argument("--rest", type=float, default=0.0, help="most seconds to watch without load (0)")
    add_json(parser)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder, ray_cluster() as cluster:
        repository = Path(folder) / "repository"
        write_model(repository, arguments.depth)
        cluster.deploy(
            app=_APPLICATION,
            repository=str(repository),
            replicas=1,
            max_replicas=2,
            target_queued_rows=arguments.target,
            cpus=0.5,
        )
        seen = list(_watch(cluster, arguments))
    rows = [[f"{one.seconds:.0f}", str(one.callers), str(one.replicas), f"{one.rate:,.0f}"] for one in seen]
    headings = ["seconds", "callers", "replicas", "answers/s"]
    ResultTable(headings=headings, rows=rows, caption=describe_machine().caption).show(
        Console(), title=f"Replicas, with {arguments.target} rows waiting at each as the target"
    )
    write_json(arguments.json, {"machine": asdict(describe_machine()), "figures": [asdict(one) for one in seen]})
    return 0


def _watch(cluster: RayCluster, arguments: argparse.Namespace) -> Iterator[Seen]:
    begin = time.monotonic()
    callers: int = arguments.callers
    for _ in range(arguments.slices):
        measured = measure(
            balanced_target(cluster.proxies[:1]),
            request_of(1),
            application=_APPLICATION,
            callers=callers,
            seconds=arguments.seconds,
        )
        replicas = len(cluster.replicas(_APPLICATION))
        yield Seen(seconds=time.monotonic() - begin, callers=callers, replicas=replicas, rate=measured.rate)
    ends, last = time.monotonic() + arguments.rest, replicas
    while last > 1 and time.monotonic() < ends:
        time.sleep(_LOOK_SECONDS)
        found = len(cluster.replicas(_APPLICATION))
        if found != last:
            yield Seen(seconds=time.monotonic() - begin, callers=0, replicas=found, rate=0.0)
        last = found


if __name__ == "__main__":
    raise SystemExit(main())

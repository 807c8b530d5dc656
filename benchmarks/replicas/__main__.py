"""Measure one and two replicas on Ray, through its proxies and past them, beside `mnserve serve`.

    PYTHONPATH=benchmarks python -m replicas
    PYTHONPATH=benchmarks python -m replicas --callers 1 32 --seconds 10 --rounds 5 --json replicas.json

A cluster of two nodes on this machine has two applications, with one replica and with two. In each round every way has
its turn, and callers ask again as soon as they are answered. The model is a layer of 1,024 by 1,024 with --depth of
them, and a request has one row. Needs the extra `ray`.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, add_timing, positive_integer, script_parser
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mnserve.bench.server_process import server_process
from mnserve.client.balancing import balanced_target
from mntrain.result_table import ResultTable
from replicas.cluster import ray_cluster
from replicas.load import Measured, measure
from replicas.model import request_of, write_model

_SERVE = "mnserve serve"
_COUNTS = {"one": 1, "two": 2}
"""Application -> its replicas."""


def main() -> int:
    """Run the benchmark; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--callers", nargs="+", type=positive_integer, default=[1, 16], help="calls at a time (1 16)")
    parser.add_argument("--depth", type=positive_integer, default=4, help="layers of the model (4)")
    add_timing(parser, seconds=5.0, rounds=3, of="way and number of callers")
    add_json(parser)
    arguments = parser.parse_args()
    console = Console()
    with TemporaryDirectory() as folder, _ways(Path(folder), arguments.depth) as ways:
        figures = {callers: _measure(ways, callers, arguments) for callers in arguments.callers}
    for callers, of_ways in figures.items():
        _show(console, callers, of_ways, arguments)
    record = {
        str(callers): {way: [asdict(one) for one in measured] for way, measured in of_ways.items()}
        for callers, of_ways in figures.items()
    }
    write_json(arguments.json, {"machine": asdict(describe_machine()), "figures": record})
    return 0


@contextmanager
def _ways(folder: Path, depth: int) -> Iterator[dict[str, tuple[str, str]]]:
    """Start everything; yields for each way the target of gRPC and the application."""
    repository = folder / "repository"
    write_model(repository, depth)
    with (
        server_process(repository, ["--intra-op-threads", "1", "--front-ends", "0"]) as plain,
        ray_cluster() as cluster,
    ):
        ways = {_SERVE: (f"ipv4:{plain}", "")}
        for application, count in _COUNTS.items():
            cluster.deploy(app=application, repository=str(repository), replicas=count, cpus=0.5)
        for application, count in _COUNTS.items():
            plural = "replica" if count == 1 else "replicas"
            ways[f"{count} {plural}, proxy"] = balanced_target(cluster.proxies[:1]), application
            ways[f"{count} {plural}, direct"] = balanced_target(cluster.replicas(application)), application
        yield ways


def _measure(
    ways: dict[str, tuple[str, str]], callers: int, arguments: argparse.Namespace
) -> dict[str, list[Measured]]:
    message = request_of(1)
    measured: dict[str, list[Measured]] = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way, (target, application) in ways.items():
            measured[way].append(
                measure(target, message, application=application, callers=callers, seconds=arguments.seconds)
            )
    return measured


def _show(console: Console, callers: int, of_ways: dict[str, list[Measured]], arguments: argparse.Namespace) -> None:
    plain = of_ways[_SERVE]
    rows = []
    for way, measured in of_ways.items():
        ratios = [one.rate / other.rate for one, other in zip(measured, plain, strict=True)]
        added = [one.p50 - other.p50 for one, other in zip(measured, plain, strict=True)]
        rows.append(
            [
                way,
                f"{median(one.rate for one in measured):,.0f}",
                f"{median(ratios):.2f}",
                f"{median(one.p50 for one in measured):.2f}",
                f"{median(one.p99 for one in measured):.2f}",
                f"{median(added):+.2f}",
            ]
        )
    headings = ["way", "answers/s", "ratio", "p50 ms", "p99 ms", "p50 more by ms"]
    caption = (
        f"Medians of {arguments.rounds} interleaved rounds of {arguments.seconds:g} s; ratio and difference are to "
        f"{_SERVE} in the same round. {describe_machine().caption}"
    )
    title = "1 caller" if callers == 1 else f"{callers} callers"
    ResultTable(headings=headings, rows=rows, caption=caption).show(console, title=title)


if __name__ == "__main__":
    raise SystemExit(main())

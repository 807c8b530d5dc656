"""Capacity of a server from measured costs: how many front ends one GPU needs, and what to expect of them.

    python benchmarks/capacity.py --measure model.onnx --json costs.json
    python benchmarks/capacity.py --costs costs.json --plot capacity.svg
    python benchmarks/capacity.py --costs benchmarks/capacity_model/epyc.json --fleet 1000000
    python benchmarks/capacity.py --check mlp.onnx resnet56.onnx --json check.json
    python benchmarks/capacity.py --check resnet56.onnx --providers cuda cpu --cores 16 --front-ends 1,2,4,8 \\
        --callers 64,256,1024 --client-threads 4

`--measure` starts `mnserve serve` with one front end, loads it with h2load (Debian's nghttp2-client) on the same
cores, and finds from the CPU of each thread what a call costs in each part. `--costs` simulates (SimPy) a machine with
such costs and one GPU, for networks that take FIRST + MORE · (rows - 1) microseconds a run. With `--fleet` it says how
many such machines answer so many calls a second, where one of `--zones` may be lost.

`--check` measures servers with one and with more front ends on each number of cores, and sets beside it what the
simulation says. It takes its costs from the first model, with one front end, at 1 and 64 callers on the most cores.
Everything else is predicted: other callers, more front ends, fewer cores. Of other models it knows how long runs take.
"""

import argparse
import math
import os
import shutil
import sys
from dataclasses import asdict
from typing import Any

from capacity_model.checking import Measured, Plan, costs_of, measure_plan, predicted
from capacity_model.costs import Costs, CostsError, read_costs
from capacity_model.drawing import draw
from capacity_model.fleet import Demand, Fleet, plan_fleet
from capacity_model.load import LoadError
from capacity_model.prediction import FRONT_ENDS, NETWORKS, Network, forecast, front_ends_needed
from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, existing_file, positive_integer, positive_number, script_parser, writable_file
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mnserve.errors import MnServeError
from mntrain.result_table import ResultTable

_LIMIT = 0.15
"""Largest distance between prediction and measurement that is wanted."""
_DISTURBED = 0.15
"""Cores that other work may take before a measurement stops counting."""


def main() -> int:
    """Run the script; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--measure", type=existing_file, metavar="MODEL", help="ONNX file with one input of floats")
    what.add_argument("--costs", type=existing_file, metavar="FILE", help="costs that --measure or --check has written")
    what.add_argument("--check", type=existing_file, nargs="+", metavar="MODEL", help="ONNX files, the smallest first")
    parser.add_argument("--cores", type=_numbers, help="for server and load, separated by commas (1 and all)")
    parser.add_argument("--front-ends", type=_numbers, help="separated by commas (--check: 1,2; --costs: 1 to 16)")
    parser.add_argument("--callers", type=_numbers, default="1,16,64,256", help="of --check (%(default)s)")
    parser.add_argument("--seconds", type=positive_number, default=1.5, help="of each load (%(default)s)")
    parser.add_argument("--client-threads", type=positive_integer, default=1, help="of h2load (%(default)s)")
    parser.add_argument("--providers", nargs="+", help="of mnserve serve, such as cuda cpu")
    parser.add_argument("--max-batch", type=positive_integer, default=32, help="(%(default)s)")
    parser.add_argument("--instances", type=positive_integer, default=1, help="engines side by side (%(default)s)")
    parser.add_argument("--networks", type=_network, nargs="+", default=NETWORKS, metavar="FIRST+MORE", help="in µs")
    parser.add_argument("--plot", type=writable_file, help="picture of --costs (.svg, .png)")
    parser.add_argument(
        "--fleet", type=positive_number, metavar="RATE", help="with --costs: calls a second of many servers"
    )
    parser.add_argument("--zones", type=positive_integer, default=3, help="of --fleet; one may be lost (%(default)s)")
    add_json(parser)
    arguments = parser.parse_args()
    if arguments.costs is None and shutil.which("h2load") is None:
        parser.error("there is no h2load; install Debian's package nghttp2-client")
    if arguments.fleet and (not arguments.costs or arguments.zones < 2):
        parser.error("--fleet goes with --costs, and with at least 2 --zones")
    try:
        if arguments.fleet:
            _plan_fleets(arguments)
        elif arguments.costs:
            _forecast(arguments)
        elif arguments.measure:
            _measure(arguments)
        else:
            return _check(arguments)
    except (CostsError, LoadError, MnServeError) as error:
        print(f"capacity: {error}", file=sys.stderr)
        return 1
    return 0


def _numbers(text: str) -> list[int]:
    return [positive_integer(part) for part in text.split(",")]


def _network(text: str) -> Network:
    first, _, more = text.partition("+")
    return Network(positive_number(first) / 1e6, positive_number(more) / 1e6)


def _plan(arguments: argparse.Namespace, **others: Any) -> Plan:
    providers = arguments.providers or []
    return Plan(
        seconds=arguments.seconds,
        options=["--providers", *providers] if providers else [],
        gpu=bool(providers) and providers[0] != "cpu",
        client_threads=arguments.client_threads,
        max_batch=arguments.max_batch,
        instances=arguments.instances,
        **others,
    )


def _measure(arguments: argparse.Namespace) -> None:
    cores = (arguments.cores or [len(os.sched_getaffinity(0))])[-1:]
    plan = _plan(arguments, models=[arguments.measure], cores=cores, front_ends=[1], callers=[])
    measured = measure_plan(plan)
    costs = costs_of(plan, measured, cores[0])
    _show_costs(costs)
    write_json(arguments.json, _record(measured, costs))


def _check(arguments: argparse.Namespace) -> int:
    cores = sorted(arguments.cores or {1, len(os.sched_getaffinity(0))})
    front_ends = arguments.front_ends or [1, 2]
    plan = _plan(arguments, models=arguments.check, cores=cores, front_ends=front_ends, callers=arguments.callers)
    measured = measure_plan(plan)
    costs = costs_of(plan, measured, cores[-1])
    _show_costs(costs)
    rows, ratios, outcomes = [], [], []
    for cell in measured.cells:
        outcome = predicted(plan, cell, costs.with_runs(measured.runs[cell.model, cell.cores]))
        outcomes.append(outcome)
        load = cell.measured
        found = [getattr(outcome, name) / getattr(load, name) for name in ("rate", "p50", "p99")]
        found.append(outcome.cpu / load.cpu_seconds)
        if load.others <= _DISTURBED:
            ratios.append(found[0])
        words = [cell.model.stem, str(cell.cores), str(cell.front_ends), str(cell.callers)]
        words += [f"{outcome.rate:,.0f} / {load.rate:,.0f}", f"{outcome.rows:.1f} / {load.rows:.1f}"]
        words += [f"{outcome.p50 * 1e3:.2f} / {load.p50 * 1e3:.2f}", f"{outcome.p99 * 1e3:.2f} / {load.p99 * 1e3:.2f}"]
        words.append(f"{outcome.cpu * 1e6:,.0f} / {load.cpu_seconds * 1e6:,.0f}")
        rows.append([*words, *(f"{ratio:.2f}" for ratio in found), f"{load.others:.1f}"])
    headings = (
        *("model", "cores", "front ends", "callers", "calls/s", "rows a run", "p50 ms", "p99 ms", "CPU µs"),
        *("rate", "p50", "p99", "CPU", "other work"),
    )
    table = ResultTable(headings=headings, rows=rows, caption=describe_machine().caption)
    table.show(Console(width=190), title="predicted / measured, and the ratios")
    within = sum(abs(ratio - 1) <= _LIMIT for ratio in ratios)
    print(f"{within} of {len(ratios)} undisturbed rates are predicted to within {_LIMIT:.0%}")
    record = _record(measured, costs)
    record["predicted"] = [asdict(outcome) for outcome in outcomes]
    write_json(arguments.json, record)
    return 0


def _record(measured: Measured, costs: Costs) -> dict[str, Any]:
    cells = [{**asdict(cell), "model": cell.model.name} for cell in measured.cells]
    runs = [{"model": model.name, "cores": cores, **asdict(runs)} for (model, cores), runs in measured.runs.items()]
    machine = describe_machine().to_json()
    return {"machine": machine, "costs": costs.to_json(), "cells": cells, "runs": runs}


def _show_costs(costs: Costs) -> None:
    parts = ("front_end", "transport", "engine", "client")
    rows = [
        [part.replace("_", " "), *(f"{value * 1e6:.0f}" for value in vars(getattr(costs, part)).values())]
        for part in parts
    ]
    runs = ", ".join(
        f"{rows}: {seconds * 1e6:,.0f}" for rows, seconds in zip(costs.runs.rows, costs.runs.seconds, strict=True)
    )
    caption = f"Runs by rows, µs: {runs}. Waking up: {costs.wake * 1e6:.0f} µs."
    table = ResultTable(headings=("thread", "µs a turn", "µs a call"), rows=rows, caption=caption)
    table.show(Console(), title="CPU")


def _forecast(arguments: argparse.Namespace) -> None:
    costs = read_costs(arguments.costs)
    _show_costs(costs)
    front_ends = arguments.front_ends or FRONT_ENDS
    found = forecast(costs, networks=arguments.networks, front_ends=front_ends, max_batch=arguments.max_batch)
    rows = [
        [
            one.network.label,
            str(one.front_ends),
            f"{one.full.rate:,.0f}",
            f"{one.full.rows:.0f}",
            one.full.bottleneck,
            f"{one.eased.p50 * 1e3:.2f} / {one.eased.p99 * 1e3:.2f}",
        ]
        for one in found
    ]
    headings = ("run", "front ends", "calls/s", "rows a run", "bottleneck", "p50 / p99 ms at 80 %")
    notes = [
        f"– {network.label}: {front_ends_needed(costs, network, arguments.max_batch)} front ends by the rule of thumb"
        for network in arguments.networks
    ]
    table = ResultTable(headings=headings, rows=rows, caption="Callers elsewhere, a core for every process.")
    table.show(Console(), title="one GPU", notes=notes)
    if arguments.plot:
        draw(
            found,
            arguments.plot,
            f"costs of {arguments.costs.name}, runs of up to {arguments.max_batch} rows",
            max_batch=arguments.max_batch,
        )
    write_json(arguments.json, {"costs": costs.to_json(), "forecasts": [asdict(one) for one in found]})


def _plan_fleets(arguments: argparse.Namespace) -> None:
    costs = read_costs(arguments.costs)
    demand = Demand(rate=arguments.fleet, zones=arguments.zones)
    fleets = [plan_fleet(costs, network, demand, max_batch=arguments.max_batch) for network in arguments.networks]
    rows = [
        [
            fleet.network.label,
            str(fleet.front_ends),
            f"{fleet.full.rate:,.0f}",
            str(fleet.servers),
            f"{fleet.servers * fleet.cores:,}",
            *(
                f"{outcome.rate / fleet.full.rate:.0%}, {outcome.p50 * 1e3:.1f} / {outcome.p99 * 1e3:.1f}"
                for outcome in (fleet.usual, fleet.reduced)
            ),
            f"{fleet.in_progress:,.0f}",
            f"{_seconds(fleet, 64 * arguments.max_batch)}",
        ]
        for fleet in fleets
    ]
    headings = (
        *("run", "front ends", "calls/s of one", "servers", "cores", "usual: load, p50 / p99 ms", "a zone lost"),
        *("calls in progress", "two lost: queues full after"),
    )
    received, sent = fleets[0].gigabits
    caption = (
        f"{demand.rate:,.0f} calls a second in {demand.zones} zones, a GPU and its cores a server. Network: "
        f"{received:.1f} Gbit/s in, {demand.request:,} bytes a request; {sent:.1f} out, {demand.answer:,} an answer."
    )
    table = ResultTable(headings=headings, rows=rows, caption=caption)
    table.show(Console(width=170), title="many servers")
    write_json(arguments.json, {"costs": costs.to_json(), "fleets": [asdict(fleet) for fleet in fleets]})


def _seconds(fleet: Fleet, rows: int) -> str:
    found = fleet.seconds_to_fill(rows)
    return "never" if math.isinf(found) else f"{found * 1e3:,.0f} ms"


if __name__ == "__main__":
    raise SystemExit(main())

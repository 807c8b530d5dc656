"""Load a server for a long time with all that callers do: no answer may be lost or swapped, no memory may stay.

    python benchmarks/soak.py                                20 minutes, 16 callers, two models
    python benchmarks/soak.py --minutes 1 --callers 4 --json soak.json
    python benchmarks/soak.py --patient                      no caller cancels; see soaking/grpc_cancels.py
    python benchmarks/soak.py --kill-seconds 20 --serve-options --front-ends 2
    python benchmarks/soak.py --serve-options --max-queue-rows 4096

Starts `mnserve serve` with two small models on free ports. Callers send good requests of 1 to 16 rows, requests with
deadlines of 0.5 to 10 ms, requests that they cancel, wrong requests, requests for a missing model, streams with one
wrong request in them, and requests for statistics. Meanwhile the models are loaded again in turn. Every answer is
compared with the right answer for its rows. A call that has not ended after a minute is lost.

With `--kill-seconds` a front end and an engine process are killed in turn (SIGKILL). Calls may end as UNAVAILABLE for
ten seconds after each, and nothing else may happen to them.

The slope of resident memory is taken by least squares over the requests of the second half, so that loading, caches
and fragmentation at the start do not count. It is printed for an hour at the rate of this run.
Exits 1 if any call was lost, swapped or unexpected.
"""

import argparse
import asyncio
import math
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import grpc
from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, positive_integer, positive_number, script_parser
from rich.console import Console
from soaking.callers import Caller, Tally, reload_models
from soaking.killing import GRACE_SECONDS, kill_in_turn
from soaking.memory import children, resident_bytes, slope
from soaking.models import write_repository

from mnserve.bench.machine import describe_machine
from mnserve.bench.server_process import server_process
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from mntrain.result_table import ResultTable

_MEBIBYTE = 2**20
_HOUR = 3600
_SAMPLES_PER_SECOND = 1
_CONNECTIONS = 4


@dataclass
class Samples:
    """Number of ended requests and bytes of resident memory, second by second."""

    requests: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    def second_half(self) -> tuple[list[int], list[int]]:
        """Return the second half of the samples."""
        half = len(self.requests) // 2
        return self.requests[half:], self.resident[half:]


def main() -> int:
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--minutes", type=positive_number, default=20, help="(20)")
    parser.add_argument("--callers", type=positive_integer, default=16, help="(16)")
    parser.add_argument("--reload-seconds", type=positive_number, default=5, help="between two reloads (5)")
    parser.add_argument("--kill-seconds", type=positive_number, help="between two kills of processes (no kills)")
    parser.add_argument("--patient", action="store_true", help="no cancels and no deadlines")
    parser.add_argument("--seed", type=int, default=0, help="(0)")
    parser.add_argument("--serve-options", nargs=argparse.REMAINDER, default=[], help="further words for mnserve serve")
    add_json(parser)
    arguments = parser.parse_args()
    if arguments.kill_seconds is not None and arguments.kill_seconds <= GRACE_SECONDS:
        parser.error(f"--kill-seconds is {arguments.kill_seconds:g}; it must be above {GRACE_SECONDS:g}, the grace")
    words = ["--model-control", "explicit", "--load-model", "twice", "thrice", "--intra-op-threads", "1"]
    with tempfile.TemporaryDirectory() as folder:
        write_repository(Path(folder))
        with server_process(Path(folder), [*words, "--log-level", "error", *arguments.serve_options]) as address:
            tally, samples, kills = asyncio.run(_soak(address, arguments))
    per_request = slope(*samples.second_half())
    rate = tally.requests / (arguments.minutes * 60)
    growth = per_request * rate * _HOUR / _MEBIBYTE
    _show(tally, samples, rate, growth, kills)
    write_json(
        arguments.json,
        {
            "machine": asdict(describe_machine()),
            "minutes": arguments.minutes,
            "callers": arguments.callers,
            "patient": arguments.patient,
            "kills": dict(kills),
            "requests": tally.requests,
            "lost": tally.lost,
            "swapped": tally.swapped,
            "unexpected": dict(tally.unexpected),
            "calls": {" ".join(key): count for key, count in sorted(tally.calls.items())},
            "resident_bytes": samples.resident,
            "bytes_per_request": per_request,
            "mebibytes_per_hour": growth,
        },
    )
    return 1 if tally.faults else 0


async def _soak(address: str, arguments: argparse.Namespace) -> tuple[Tally, Samples, Counter[str]]:
    tally, samples, stop = Tally(), Samples(), asyncio.Event()
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(_CONNECTIONS)]
    stubs: list[Any] = [GRPCInferenceServiceStub(channel) for channel in channels]  # type: ignore[arg-type]
    callers = [
        asyncio.create_task(
            Caller(stubs[number % len(stubs)], tally, arguments.seed + number, patient=arguments.patient).run(stop)
        )
        for number in range(arguments.callers)
    ]
    reloading = asyncio.create_task(reload_models(stubs[0], tally, arguments.reload_seconds, stop))
    killing = asyncio.create_task(kill_in_turn(tally, arguments.kill_seconds or math.inf, stop))
    end = time.monotonic() + arguments.minutes * 60
    while time.monotonic() < end and not any(task.done() for task in callers):
        await asyncio.sleep(1 / _SAMPLES_PER_SECOND)
        samples.requests.append(tally.requests)
        samples.resident.append(resident_bytes(children(os.getpid())))
        if len(samples.requests) % 60 == 0:
            faults = f"{tally.faults} faults, {samples.resident[-1] / _MEBIBYTE:.1f} MiB resident"
            print(f"{len(samples.requests) // 60} min: {tally.requests} calls, {faults}", file=sys.stderr, flush=True)
    stop.set()
    await asyncio.gather(*callers, reloading)
    kills = await killing
    for channel in channels:
        await channel.close()
    return tally, samples, kills


def _show(tally: Tally, samples: Samples, rate: float, growth: float, kills: Counter[str]) -> None:
    table = ResultTable(
        headings=("calls", "ended", "number"),
        rows=[[what, ended, str(count)] for (what, ended), count in sorted(tally.calls.items())],
        caption=f"{tally.requests} calls, {rate:.0f} a second: {tally.lost} lost, {tally.swapped} swapped, "
        f"{tally.unexpected.total()} unexpected. {samples.resident[-1] / _MEBIBYTE:.1f} MiB resident in the end, "
        f"{growth:+.2f} MiB an hour in the second half.",
    )
    notes = [f"{count} x {text}" for text, count in tally.unexpected.items()]
    notes += [f"{count} kills of a {kind}" for kind, count in kills.items()]
    table.show(Console(), title="soak", notes=notes)


if __name__ == "__main__":
    raise SystemExit(main())

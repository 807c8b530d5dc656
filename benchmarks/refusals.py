"""Measure what callers can take from a server that refuses them: memory that stays, and time of the other callers.

    python benchmarks/refusals.py
    python benchmarks/refusals.py --only refused shared-memory --messages 10 --json refusals.json

Starts `mnserve serve` anew for every measurement:

    refused         memory after 100 refused messages of 62 MiB in turn, of each kind
    waits           longest wait of a small caller beside large messages
    many-strings    the same beside 8 callers of messages with a million strings
    shared-memory   a region of 20 GiB (a file without blocks) that is sent as a tensor of 32 bytes
    long-names      30 health watches with a name of 60 MiB
    watches         16 health watches, and other calls, at --max-concurrent-requests 16
    at-once         3,000 and 6,000 calls at once on one channel
    sigterm         calls around a SIGTERM
    unread-stream   a stream whose client reads nothing
    pipelines       two streams that send full batches without a pause

Exits 1 if a bound is exceeded.
"""

from dataclasses import asdict

from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, positive_integer, script_parser
from refusing import calls, memory
from refusing.served import Figure
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mntrain.result_table import ResultTable

_MEASUREMENTS = {**memory.MEASUREMENTS, **calls.MEASUREMENTS}


def main() -> int:
    """Run the benchmark; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=_MEASUREMENTS, default=list(_MEASUREMENTS), metavar="NAME")
    parser.add_argument("--messages", type=positive_integer, default=100, help="refused messages of each kind (100)")
    add_json(parser)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    figures: list[Figure] = []
    for name in arguments.only:
        for figure in _MEASUREMENTS[name](arguments.messages):
            figures.append(figure)
            console.print(f"{figure.what}: {figure.value:.2f} {figure.unit} ({figure.note})", soft_wrap=True)
    _show(figures)
    record = [{**asdict(figure), "kept": figure.kept} for figure in figures]
    write_json(arguments.json, {"machine": asdict(describe_machine()), "figures": record})
    return 0 if all(figure.kept for figure in figures) else 1


def _show(figures: list[Figure]) -> None:
    rows = [
        [figure.what, f"{figure.value:,.4g} {figure.unit}", f"{figure.bound:g}", "yes" if figure.kept else "NO"]
        for figure in figures
    ]
    exceeded = sum(not figure.kept for figure in figures)
    table = ResultTable(
        headings=("what callers do", "measured", "bound", "kept"),
        rows=rows,
        caption=f"{len(figures)} measurements, {exceeded} over their bound.",
    )
    table.show(
        Console(), title="refusals", notes=[f"{figure.what}: {figure.note}" for figure in figures if figure.note]
    )


if __name__ == "__main__":
    raise SystemExit(main())

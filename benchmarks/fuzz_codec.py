"""Fuzz the codec: every inference request must get an answer or a refusal.

    python benchmarks/fuzz_codec.py                          10 minutes
    python benchmarks/fuzz_codec.py --seconds 60 --json fuzz.json
    python benchmarks/fuzz_codec.py --form http --runs 1000000
    python benchmarks/fuzz_codec.py --corpus build/fuzz      go on with what earlier runs found
    python benchmarks/fuzz_codec.py --replay build/fuzz_codec/crash-0123

Needs the extra `fuzz` (atheris, which contains libFuzzer). Some inputs are bytes that are parsed as a message and
checked against nine models. Others are choices that make a request which keeps nearly every rule of a model: floats,
halves, strings, integers, with and without a batch dimension, typed and raw contents, shared memory, priorities and
timeouts.

With `--form http` they are bodies of HTTP: JSON, binary tensors behind it, and forms. The same request has to mean the
same as in gRPC, and an answer the same in JSON and as binary tensors.

Findings are: an exception that is no error of the protocol, a refusal of more than 2000 characters, a decoded request
that breaks the model's rules, an answer with other values than the request, a run of more than 10 seconds or 2 GiB.
The input is kept under build/fuzz_codec, and the exit code is 1.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from common.figures import write_json
from common.options import add_json, positive_integer, script_parser
from fuzzing.seeds import write_seeds
from rich.console import Console

from mnserve.bench.machine import describe_machine
from mntrain.result_table import ResultTable

ROOT: Final = Path(__file__).resolve().parent.parent
FINDINGS: Final = ROOT / "build" / "fuzz_codec"
_LIMITS: Final = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]
_COVERAGE: Final = re.compile(r"^#\d+\s+(\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)
_NOISE: Final = re.compile(r"INFO: Instrumenting|WARNING: Failed to find function|#\d+\s+(?!pulse)|\".*\" # Uses:")
"""Lines of libFuzzer that are not shown."""
_RUNS: Final = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--seconds", type=positive_integer, default=600, help="(600)")
    parser.add_argument("--runs", type=positive_integer, help="stop after so many, in place of --seconds")
    parser.add_argument("--form", choices=("grpc", "http"), default="grpc", help="of the requests (grpc)")
    parser.add_argument("--seed", type=positive_integer, default=1, help="of the fuzzer's choices (1)")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER", help="keeps inputs that lead to something new")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input again and stop")
    add_json(parser)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed: pip install -c constraints.txt '.[fuzz]'")
    if arguments.replay is not None and not arguments.replay.is_file():
        parser.error(f"--replay {arguments.replay} is no file")
    with tempfile.TemporaryDirectory() as name:
        return _run(arguments, Path(name))


def _run(arguments: argparse.Namespace, folder: Path) -> int:
    (folder / "shared").mkdir()
    FINDINGS.mkdir(parents=True, exist_ok=True)
    words = [*_LIMITS, f"-artifact_prefix={FINDINGS}/"]
    if arguments.replay is not None:
        code, _ = _fuzz(arguments.form, folder, [*words, str(arguments.replay.resolve())])
        print(f"fuzz_codec: {arguments.replay} " + ("is still a finding" if code else "is none any more"))
        return min(code, 1)
    corpus = arguments.corpus or folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = write_seeds(folder / "seeds", arguments.form)
    limit = f"-runs={arguments.runs}" if arguments.runs else f"-max_total_time={arguments.seconds}"
    words += [limit, f"-seed={arguments.seed}", "-print_final_stats=1"]
    began = time.monotonic()
    code, log = _fuzz(arguments.form, folder, [*words, str(corpus.resolve()), str(folder / "seeds")])
    seconds = time.monotonic() - began
    tally_file = folder / "tally.json"
    tally = json.loads(tally_file.read_text()) if tally_file.is_file() else {}
    coverage, runs = _COVERAGE.findall(log), _RUNS.search(log)
    if not coverage or runs is None:
        print(f"fuzz_codec: the fuzzer did not run, and ended with {code}", file=sys.stderr)
        return 1
    first = next((edges for what, edges, _, _ in coverage if what == "INITED"), coverage[0][1])
    _, edges, features, corpus = coverage[-1]
    record = {
        "machine": asdict(describe_machine()),
        "seconds": seconds,
        "executions": int(runs[1]),
        "executions_per_second": int(runs[1]) / seconds,
        "edges_of_seeds": int(first),
        "edges": int(edges),
        "features": int(features),
        "corpus": int(corpus),
        "outcomes": tally,
        "finding": code != 0,
    }
    _show(record, seeds)
    write_json(arguments.json, record)
    return min(code, 1)


def _fuzz(form: str, folder: Path, words: list[str]) -> tuple[int, str]:
    """Run libFuzzer in a process of its own, which it ends by itself; its output is shown and returned."""
    paths = [str(ROOT / "benchmarks"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "fuzzing.worker", form, str(folder), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    )
    assert process.stdout is not None
    lines = []
    with process:
        for line in process.stdout:
            lines.append(line)
            if not _NOISE.match(line):
                print(line, end="", file=sys.stderr, flush=True)
    return process.returncode, "".join(lines)


def _show(record: dict[str, object], seeds: int) -> None:
    outcomes = record["outcomes"]
    assert isinstance(outcomes, dict)
    table = ResultTable(
        headings=("what became of a request", "number"),
        rows=[[what, f"{count:,}"] for what, count in sorted(outcomes.items(), key=lambda item: -item[1])],
        caption=f"{record['executions']:,} executions in {record['seconds']:.0f} s, "
        f"{record['executions_per_second']:,.0f} a second. {record['edges']} edges and {record['features']} features "
        f"covered ({record['edges_of_seeds']} edges by the {seeds} seeds), {record['corpus']} inputs kept. "
        + (f"A FINDING: see above, and {FINDINGS}." if record["finding"] else "No finding."),
    )
    table.show(Console(), title="fuzz_codec", notes=[])


if __name__ == "__main__":
    raise SystemExit(main())

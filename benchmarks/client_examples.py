"""Run Triton's client examples for Python, unchanged, against ``mnserve serve``, and print a table.

    git clone https://github.com/triton-inference-server/client
    python benchmarks/client_examples.py client/src/python/examples
    python benchmarks/client_examples.py EXAMPLES --python other/bin/python --port 8001 --json build/clients.json

The models are made on the spot. ``--python`` is an interpreter with ``tritonclient[grpc,http]`` and Pillow, where this
one lacks them. Examples that the folder does not have are left out. Exit code 1: an example that works here failed. 2:
the examples could not be run.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from client_programs.catalogue import EXAMPLES, IMAGE, Example
from client_programs.models import write_image, write_repository
from common.options import add_json, positive_number, script_parser
from perf_analyzer import BenchmarkError, announced

DEFAULT_PORT = 8001
OPTIONS = ("--server-name", "triton")
"""Options of the server: one example checks its name."""
MARK = "PASS"
"""Word that most examples print at their end."""


@dataclass(frozen=True)
class Outcome:
    """What came of an example.

    Attributes:
        example: the example.
        passed: it ended with 0, and said so where it does.
        told: its last line.
    """

    example: Example
    passed: bool
    told: str

    @property
    def expected(self) -> bool:
        """False for an example that should have passed."""
        return self.passed or bool(self.example.reason)

    @property
    def result(self) -> str:
        """Cell of the table."""
        if self.passed:
            return "passes"
        return f"cannot: {self.example.reason}" if self.example.reason else f"FAILED: {self.told}"


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("examples", type=Path, help="folder of the examples")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the examples (this one)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"port of the server; 0 is any ({DEFAULT_PORT})")
    parser.add_argument(
        "--timeout", type=positive_number, default=60.0, metavar="SECONDS", help="longest run of an example (60)"
    )
    add_json(parser)
    arguments = parser.parse_args()
    found = [
        example
        for example in EXAMPLES
        if (arguments.examples / example.file).is_file() and (arguments.port == DEFAULT_PORT or not example.fixed_port)
    ]
    if not found:
        print(f"client_examples: {arguments.examples} holds none of the examples", file=sys.stderr)
        return 2
    try:
        outcomes = _run_all(found, arguments)
    except BenchmarkError as error:
        print(f"client_examples: {error}", file=sys.stderr)
        return 2
    if arguments.json is not None:
        rows = [{"example": one.example.title, "passed": one.passed, "told": one.told} for one in outcomes]
        arguments.json.write_text(json.dumps(rows, indent=2))
    failed = [one for one in outcomes if not one.expected]
    print(f"{sum(one.passed for one in outcomes)} of {len(outcomes)} pass, {len(failed)} failed")
    return int(bool(failed))


def _run_all(examples: Sequence[Example], arguments: argparse.Namespace) -> list[Outcome]:
    """Run the examples, with a server for those that load models themselves and one for the others."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        repository, image = Path(folder) / "models", Path(folder) / "grey.png"
        write_repository(repository)
        write_image(image)
        for explicit, without in sorted({(example.explicit, example.without) for example in examples}):
            group = [example for example in examples if (example.explicit, example.without) == (explicit, without)]
            if without:  # these come last
                shutil.rmtree(repository / without)
            options = [
                *OPTIONS,
                "--grpc-port",
                str(arguments.port),
                "--http-port",
                "0",
                *(["--model-control", "explicit"] if explicit else []),
            ]
            with announced(repository, *options) as line:
                addresses = {scheme: line.split(f"{scheme}://")[1].split(",")[0].strip() for scheme in ("grpc", "http")}
                for example in group:
                    address = addresses["http" if example.http else "grpc"]
                    outcomes.append(_run(example, arguments, image, address))
                    print(f"{example.title:<68} {outcomes[-1].result}", flush=True)
    return outcomes


def _run(example: Example, arguments: argparse.Namespace, image: Path, address: str) -> Outcome:
    path = arguments.examples / example.file
    words = [str(image) if word == IMAGE else word for word in example.arguments]
    command = [arguments.python, str(path), *words, *([] if example.fixed_port else ["-u", address])]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=arguments.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(example, passed=False, told=f"no end within {arguments.timeout:g} s")
    except OSError as error:
        raise BenchmarkError(f"{arguments.python} does not start: {error.strerror}") from error
    marked = MARK in done.stdout or MARK not in path.read_text(encoding="utf-8")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return Outcome(example, passed=done.returncode == 0 and marked, told=lines[-1][:300] if lines else "")


if __name__ == "__main__":
    raise SystemExit(main())

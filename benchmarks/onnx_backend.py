"""Serve the models of ONNX's backend suite and compare each answer, bit by bit, with ONNX Runtime alone.

    python benchmarks/onnx_backend.py                        all models
    python benchmarks/onnx_backend.py --only 'node-reduce_*' --json suite.json
    python benchmarks/onnx_backend.py --expect 1714          exit 1 if fewer are equal

Makes the suite's models from the installed package onnx (operators, small graphs, exports of PyTorch, networks) and
runs each with one session of ONNX Runtime. Those that it runs are served in groups by `mnserve serve` with default
options, without a config.pbtxt. tritonclient sends the suite's own inputs.

A model is equal where shape, type and every bit of every output are those of ONNX Runtime alone. Sequences, maps,
optional values and 8-bit floats have no type in the protocol. Exits 1 if an answer is wrong.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, positive_integer, script_parser, whole_number
from onnx_suite.arrays import has_non_finite
from onnx_suite.cases import SuiteCase, collect
from onnx_suite.outcomes import Outcomes
from onnx_suite.raw import RawSession
from onnx_suite.served import Expected, can_be_sent, serve
from rich.console import Console
from rich.progress import Progress

from mnserve.bench.machine import describe_machine


def main() -> int:
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="names, such as 'node-reduce_*' (all)")
    parser.add_argument("--group-size", type=positive_integer, default=100, help="most models of a server (100)")
    parser.add_argument("--groups", type=positive_integer, help="serve no more than so many groups")
    parser.add_argument("--expect", type=whole_number, default=0, metavar="N", help="exit 1 if fewer are equal (0)")
    parser.add_argument("--serve-options", nargs=argparse.REMAINDER, default=[], help="further words for mnserve serve")
    add_json(parser)
    arguments = parser.parse_args()
    outcomes = Outcomes()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        expected = _run_alone(arguments.only, outcomes, progress)
        _serve_groups(expected, outcomes, arguments, progress)
    if not outcomes.suite:
        print(f"onnx_backend: the suite has no model {' '.join(arguments.only)}", file=sys.stderr)
        return 1
    outcomes.table().show(Console(), title="onnx_backend", notes=[])
    write_json(arguments.json, {"machine": asdict(describe_machine()), **outcomes.record()})
    if outcomes.count("equal") < arguments.expect:
        print(f"onnx_backend: {outcomes.count('equal')} equal, expected {arguments.expect}", file=sys.stderr)
        return 1
    return 1 if outcomes.count("wrong") else 0


def _run_alone(patterns: list[str], outcomes: Outcomes, progress: Progress) -> list[Expected]:
    task = progress.add_task("ONNX Runtime alone", total=None)
    expected = []
    for case in collect(*patterns):
        outcomes.suite += 1
        progress.update(task, advance=1, description=f"ONNX Runtime alone: {case.name}")
        found = _expect(case, outcomes)
        if found is not None:
            expected.append(found)
    progress.remove_task(task)
    return expected


def _expect(case: SuiteCase, outcomes: Outcomes) -> Expected | None:
    """Run a model with ONNX Runtime alone; None where it cannot be run or cannot be sent."""
    try:
        session = RawSession(case.model)
        answers = [session.run(values) for values in case.data_sets]
    except Exception as error:  # noqa: BLE001 (ONNX Runtime has no tree of errors)
        outcomes.not_run[case.name] = str(error)
        return None
    values = [value for values in (*case.data_sets, *answers) for value in values]
    types = sorted({tensor.type for tensor in (*session.inputs, *session.outputs)})
    if not all(map(can_be_sent, values)):
        outcomes.models[case.name] = ("no type", ", ".join(types))
        return None
    if any(has_non_finite(value) for values in case.data_sets for value in values):
        outcomes.non_finite.add(case.name)
    names = [tensor.name for tensor in session.inputs]
    return Expected(
        name=case.name,
        model=case.model,
        inputs=[dict(zip(names, values, strict=False)) for values in case.data_sets],
        outputs=[tensor.name for tensor in session.outputs],
        answers=answers,
    )


def _serve_groups(
    expected: list[Expected], outcomes: Outcomes, arguments: argparse.Namespace, progress: Progress
) -> None:
    count = -(-len(expected) // arguments.group_size)
    task = progress.add_task("served", total=len(expected))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count)[: arguments.groups]:
            group = expected[number::count]  # large models come in a row, so they are spread over the groups
            found = serve(
                Path(folder),
                group,
                arguments.serve_options,
                lambda name: progress.update(task, advance=1, description=f"served: {name}"),
            )
            outcomes.models.update({name: (one.outcome, one.reason) for name, one in found.items()})


if __name__ == "__main__":
    raise SystemExit(main())

"""Build wheel and source archive, install each with the serving extra in empty environments, and serve from there.

    make packages                                               # with the Pythons 3.11 to 3.13
    make packages PYTHONS="python3.11 /opt/python/bin/python3.13"
    cd benchmarks && python -m distribution.packages --pythons python3.11 --json packages.json

For each Python and archive: an environment with nothing but pip, `pip install ARCHIVE[serve]`, then `mnserve serve`
with a tiny model, a prediction over gRPC, and SIGTERM. Each trial is told as it ends. A Python that is not found, that
does not start (such as a name that pyenv knows, of a version that is not chosen) or that fails makes the exit code 1.
The archives stay in build/packages.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from common.figures import write_json
from common.loopback import exempt_loopback
from common.options import add_json, script_parser
from rich.console import Console
from soaking.models import write_repository

from distribution.environments import InstallError, build_archives, install, make_environment, python_fault, run
from mntrain.result_table import ResultTable

_ROOT = Path(__file__).parents[2]
_PYTHONS = ("python3.11", "python3.12", "python3.13")


def main() -> int:
    """Run the script; returns the exit code."""
    exempt_loopback()
    parser = script_parser(__doc__)
    parser.add_argument("--pythons", nargs="+", default=_PYTHONS, metavar="PYTHON", help="names or paths")
    add_json(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_repository(Path(scratch) / "repository")
        try:
            archives = build_archives(_ROOT, _ROOT / "build" / "packages", sys.executable)
        except InstallError as error:
            print(f"packages: {error}", file=sys.stderr)
            return 1
        trials = []
        for python in arguments.pythons:
            for archive in archives:
                trials.append(_try(python, archive, Path(scratch)))
                print(_sentence(trials[-1]), flush=True)
    _show(trials)
    write_json(arguments.json, trials)
    return 0 if all(trial["works"] for trial in trials) else 1


def _try(python: str, archive: Path, scratch: Path) -> dict[str, Any]:
    """Install one archive for one Python, and serve; returns what was found."""
    trial: dict[str, Any] = {"python": python, "archive": archive.name, "works": False}
    fault = python_fault(python)
    if fault:
        return {**trial, "fault": fault}
    try:
        interpreter = make_environment(python, scratch / "environment")
        install(interpreter, archive, "serve", _ROOT / "constraints.txt")
        script = str(_ROOT / "benchmarks" / "distribution" / "trial.py")
        found = json.loads(run([str(interpreter), script, str(scratch / "repository")], scratch).splitlines()[-1])
    except InstallError as error:
        return {**trial, "fault": str(error)}
    works = found["right"] and found["exit_code"] == 0 and found["installed"] and not found["torch"]
    return {**trial, **found, "works": works, "fault": ""}


def _sentence(trial: dict[str, Any]) -> str:
    verdict = "works" if trial["works"] else f"FAILS: {trial['fault'] or 'the server or its answer is not right'}"
    return f"{trial['python']}, {trial['archive']}: {verdict}"


def _show(trials: list[dict[str, Any]]) -> None:
    rows = [
        [
            str(trial["python"]),
            str(trial["archive"]),
            "works" if trial["works"] else "FAILS",
            str(trial.get("onnxruntime", "")),
            str(trial.get("packages", "")),
        ]
        for trial in trials
    ]
    table = ResultTable(headings=("Python", "archive", "serving", "onnxruntime", "packages"), rows=rows, caption="")
    faults = [f"– {trial['python']}, {trial['archive']}: {trial['fault']}" for trial in trials if trial["fault"]]
    table.show(Console(width=120), title="installed with the extra 'serve'", notes=faults)


if __name__ == "__main__":
    raise SystemExit(main())

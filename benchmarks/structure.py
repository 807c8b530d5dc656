"""Count obstacles to reading: full folders, upward imports, circles, repeated names, files that one call passes.

    python benchmarks/structure.py                                  everything; a minute or two
    python benchmarks/structure.py --only static inference
    python benchmarks/structure.py --json structure.json

*static* reads the source: files per folder, imports against the floors of benchmarks/code_structure/floors.py, class
names. *inference* serves a small model in this process and traces one ModelInfer call that another process sends.
*training* traces `mntrain fit` of 64 digits for an epoch, and *export* traces `mnexport` of its artifact.

Traced are the functions of the three packages on all threads, in the order of their first calls. Import time, generated
code and functions that dataclasses generate do not count. Exits 1 if a count is above its limit.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from code_structure.class_names import repeated_class_names
from code_structure.errors import TraceError
from code_structure.floors import FLOORS
from code_structure.report import StaticCounts, Structure
from code_structure.rooms import check_rooms
from code_structure.sources import files_per_folder
from code_structure.tracer import CallPath, CallTracer
from common.figures import write_json
from common.options import add_json, script_parser

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tuple(FLOORS)
FOLDERS = (*PACKAGES, "tests", "benchmarks")
STATIC = "static"
TRACED = {"inference": ("mnserve",), "training": ("mntrain",), "export": ("mntrain", "mnexport")}
"""Pieces of work that can be traced, with the packages that each needs."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the script.

    Attributes:
        only: parts to count.
        json: file for the counts; None for no file.
    """

    only: tuple[str, ...]
    json: Path | None


def main() -> int:
    """Prints the counts; returns the exit code."""
    options = _options()
    try:
        structure = Structure(
            static=static_counts(ROOT) if STATIC in options.only else None,
            paths=traced_paths(ROOT, [work for work in TRACED if work in options.only]),
        )
    except TraceError as error:
        print(f"structure: {error}", file=sys.stderr)
        return 1
    print(structure.to_text(), end="")
    write_json(options.json, structure.to_json())
    return int(any(count.exceeded for count in structure.counts()))


def static_counts(root: Path) -> StaticCounts:
    """Counts what the source alone shows.

    Args:
        root: folder of the source tree.
    """
    return StaticCounts(
        folders=files_per_folder(root, FOLDERS),
        rooms=[check_rooms(root, package, floors) for package, floors in FLOORS.items()],
        class_names=repeated_class_names(root, PACKAGES),
    )


def traced_paths(root: Path, works: Sequence[str]) -> dict[str, CallPath]:
    """Traces pieces of work.

    Args:
        root: folder of the source tree.
        works: of :data:`TRACED`.

    Raises:
        TraceError: one of them failed, or the packages are imported from elsewhere.
    """
    from code_structure.commands import import_package, trace_export, trace_training, train_untraced

    paths: dict[str, CallPath] = {}
    for package in {package for work in works for package in TRACED[work]}:
        import_package(root, package)
    tracer = CallTracer(root, PACKAGES)
    with tempfile.TemporaryDirectory(prefix="structure-") as folder:
        if "inference" in works:
            from code_structure.inference import trace_inference

            paths["inference"] = trace_inference(tracer)
        if "training" in works:
            paths["training"] = trace_training(root, tracer, Path(folder))
        elif "export" in works:
            train_untraced(root, Path(folder))
        if "export" in works:
            paths["export"] = trace_export(root, tracer, Path(folder))
    return paths


def _options() -> Options:
    parser = script_parser(__doc__)
    parts = (STATIC, *TRACED)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="parts to count (all)")
    add_json(parser)
    arguments = parser.parse_args()
    return Options(only=tuple(arguments.only), json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())

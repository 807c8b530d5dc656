"""Paths of one training and of one export, each run by its command in this process."""

import contextlib
import importlib
import io
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from code_structure.errors import TraceError
from code_structure.sources import package_modules
from code_structure.tracer import CallPath, CallTracer

_NAME = "traced"
_FIT = ["digits", "--family", "meta_neighborhoods", "--training.epochs", "1", "--data.train_limit", "64"]


def trace_training(root: Path, tracer: CallTracer, runs: Path) -> CallPath:
    """Traces `mntrain fit digits`: Meta-Neighborhoods, 64 images, one epoch.

    Args:
        root: folder of the source tree.
        runs: folder to write the run into.

    Raises:
        TraceError: the command failed.
    """
    return _trace(root, tracer, "mntrain", ["fit", *_FIT, "--name", _NAME, "--runs", str(runs)])


def trace_export(root: Path, tracer: CallTracer, runs: Path) -> CallPath:
    """Traces `mnexport` with the artifact of :func:`trace_training` and default options.

    Raises:
        TraceError: the command failed.
    """
    return _trace(root, tracer, "mnexport", [str(runs / _NAME / "artifact"), str(runs / "repository" / _NAME)])


def train_untraced(root: Path, runs: Path) -> None:
    """Makes the artifact that :func:`trace_export` needs, where no training was traced.

    Raises:
        TraceError: the command failed.
    """
    _run(command_of(root, "mntrain"), "mntrain", ["fit", *_FIT, "--name", _NAME, "--runs", str(runs)])


def import_package(root: Path, package: str) -> None:
    """Imports every module of a package, so that no import runs while calls are recorded.

    Raises:
        TraceError: Python finds the package in another folder than ``root``.
    """
    for name in package_modules(root, package):
        if not name.endswith(".__main__"):
            importlib.import_module(name)
    file = Path(importlib.import_module(package).__file__ or "").resolve()
    if not file.is_relative_to(root.resolve()):
        raise TraceError(f"{package} is imported from {file.parent}, not from {root}; set PYTHONPATH to {root}")


def command_of(root: Path, name: str) -> Callable[[Sequence[str]], int]:
    """Finds the function of a console script in pyproject.toml."""
    scripts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts[name].partition(":")
    command: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), function)
    return command


def _trace(root: Path, tracer: CallTracer, name: str, words: list[str]) -> CallPath:
    command = command_of(root, name)
    with tracer.installed(), tracer.recording():
        _run(command, name, words)
    return tracer.path()


def _run(command: Callable[[Sequence[str]], int], name: str, words: list[str]) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = command(words)
    if code:
        raise TraceError(f"{name} {' '.join(words)} ended with {code}: {printed.getvalue()}")

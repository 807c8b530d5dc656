"""Tracer of function calls: which files of which packages a piece of work passes through, on all threads.

Python's profile hook sees every call and every resumption of a coroutine. Only frames whose code lies in a traced
folder are kept; functions that a dataclass generates have no file and drop out, as generated protobuf code does.
Lambdas and comprehensions count as the function that they stand in. Module bodies do not count.
"""

import re
import sys
import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from code_structure.sources import is_generated

_COMMAND_LINE = re.compile(r"/(cli\.py$|commands/)")
_INNER = re.compile(r"(\.<locals>)?\.<(lambda|listcomp|setcomp|dictcomp|genexpr)>.*")


@dataclass(frozen=True, kw_only=True)
class TracedFile:
    """A file and the functions of it that were called, in the order of their first calls."""

    file: str
    functions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CallPath:
    """Path of one piece of work through the source.

    Attributes:
        files: in the order of their first calls.
        calls: calls of functions and resumptions of coroutines.
        changes: calls whose file is not that of the call before, all threads in one order.
    """

    files: tuple[TracedFile, ...]
    calls: int
    changes: int

    @property
    def functions(self) -> int:
        """Number of different functions."""
        return sum(len(item.functions) for item in self.files)

    @property
    def below_commands(self) -> list[str]:
        """Files without those of the command line, which builds the parsers of all commands."""
        return [item.file for item in self.files if not _COMMAND_LINE.search(item.file)]


def path_of(calls: Sequence[tuple[str, str]]) -> CallPath:
    """Sums up calls.

    Args:
        calls: file and function of each, in their order.
    """
    functions: dict[str, dict[str, None]] = {}
    changes, last = 0, None
    for file, function in calls:
        functions.setdefault(file, {})[function] = None
        changes += last is not None and file != last
        last = file
    files = tuple(TracedFile(file=file, functions=tuple(names)) for file, names in functions.items())
    return CallPath(files=files, calls=len(calls), changes=changes)


class CallTracer:
    """Records calls of functions whose files lie in some folders.

    Args:
        root: file names are told relative to this folder.
        folders: names of folders of ``root`` whose files count.
    """

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root = root.resolve()
        self._folders = [self._root / folder for folder in folders]
        self._names: dict[str, str | None] = {}
        self._calls: list[tuple[str, str]] = []
        self._recording = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Hooks this thread and every thread that starts meanwhile; nothing is kept before :meth:`recording`."""
        earlier = sys.getprofile(), threading.getprofile()
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(earlier[0])
            threading.setprofile(earlier[1])

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keeps the calls of hooked threads, in place of those that were kept before."""
        self._calls.clear()
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def path(self, background: Set[tuple[str, str]] = frozenset()) -> CallPath:
        """Sums up the calls that were kept.

        Args:
            background: functions to leave out, as :meth:`called` names them.
        """
        return path_of([call for call in self._calls if call not in background])

    def called(self) -> frozenset[tuple[str, str]]:
        """Files and functions of the calls that were kept."""
        return frozenset(self._calls)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._recording or event != "call":
            return
        code = frame.f_code
        try:
            file = self._names[code.co_filename]
        except KeyError:
            file = self._names[code.co_filename] = self._relative(code.co_filename)
        if file is not None and code.co_name != "<module>":
            self._calls.append((file, _INNER.sub("", code.co_qualname)))

    def _relative(self, filename: str) -> str | None:
        path = Path(filename)
        if not path.is_absolute() or is_generated(path):
            return None
        path = path.resolve()
        if not any(path.is_relative_to(folder) for folder in self._folders):
            return None
        return path.relative_to(self._root).as_posix()

"""All counts of one run of benchmarks/structure.py, as plain text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from code_structure.imports import Import
from code_structure.rooms import RoomReport
from code_structure.tracer import CallPath

MAX_FILES_PER_FOLDER = 25
MAX_REPEATED_CLASS_NAMES = 3
MAX_TRACED_FILES = {"inference": 16, "training": 40}
_INDENT = "    "


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number and the limit that it is held against; no limit where it is None."""

    name: str
    value: int
    limit: int | None

    @property
    def exceeded(self) -> bool:
        """The value is above the limit."""
        return self.limit is not None and self.value > self.limit


@dataclass(frozen=True, kw_only=True)
class StaticCounts:
    """Counts that are read from the source.

    Attributes:
        folders: folder -> files of code, the fullest first.
        rooms: one report a package.
        class_names: repeated class name -> its places.
    """

    folders: dict[str, int]
    rooms: list[RoomReport]
    class_names: dict[str, list[str]]

    def counts(self) -> list[Count]:
        """The numbers that have a limit."""
        per_package: list[tuple[str, int]] = []
        for report in self.rooms:
            per_package += [
                (f"imports that run up in {report.package}", len(report.upward)),
                (f"circles of modules in {report.package}", len(report.module_circles)),
                (f"circles of rooms in {report.package}", len(report.room_circles)),
                (f"rooms without a floor in {report.package}", len(report.unplaced)),
            ]
        return [
            Count(name="files in the fullest folder", value=max(self.folders.values()), limit=MAX_FILES_PER_FOLDER),
            *(Count(name=name, value=value, limit=0) for name, value in per_package),
            Count(name="repeated class names", value=len(self.class_names), limit=MAX_REPEATED_CLASS_NAMES),
        ]


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Counts of the source and of the paths of calls.

    Attributes:
        static: counts of the source; None where they were not asked for.
        paths: piece of work -> the files it passes through.
    """

    static: StaticCounts | None = None
    paths: dict[str, CallPath] = field(default_factory=dict)

    def counts(self) -> list[Count]:
        """Every number, with its limit."""
        traced = [
            Count(
                name=f"files of one {work}, command line aside",
                value=len(path.below_commands),
                limit=MAX_TRACED_FILES.get(work),
            )
            for work, path in self.paths.items()
        ]
        return [*([] if self.static is None else self.static.counts()), *traced]

    def to_json(self) -> dict[str, Any]:
        """The counts and all that stands behind them."""
        return {
            "counts": [asdict(count) | {"exceeded": count.exceeded} for count in self.counts()],
            "static": None if self.static is None else asdict(self.static),
            "paths": {
                work: asdict(path) | {"functions": path.functions, "below_commands": len(path.below_commands)}
                for work, path in self.paths.items()
            },
        }

    def to_text(self) -> str:
        """The same as tables of ASCII characters."""
        lines: list[str] = []
        if self.static is not None:
            lines += _folder_lines(self.static.folders)
            for report in self.static.rooms:
                lines += _room_lines(report)
            lines += ["", f"Class names defined twice or more: {len(self.static.class_names)}"]
            lines += _table(
                ("class", "places"), [[name, ", ".join(at)] for name, at in self.static.class_names.items()]
            )
        for work, path in self.paths.items():
            lines += _path_lines(work, path)
        rows = [
            [count.name, str(count.value), "" if count.limit is None else str(count.limit), _verdict(count)]
            for count in self.counts()
        ]
        lines += ["", "Summary", *_table(("count", "value", "limit", ""), rows)]
        return "\n".join(lines).lstrip("\n") + "\n"


def _verdict(count: Count) -> str:
    if count.limit is None:
        return ""
    return "ABOVE" if count.exceeded else "ok"


def _folder_lines(folders: dict[str, int]) -> list[str]:
    above = [folder for folder, files in folders.items() if files > MAX_FILES_PER_FOLDER]
    rows = [[folder, str(files), "ABOVE" if files > MAX_FILES_PER_FOLDER else ""] for folder, files in folders.items()]
    title = f"Files of code per folder: {len(above)} of {len(folders)} folders above {MAX_FILES_PER_FOLDER}"
    return [title, *_table(("folder", "files", ""), rows)]


def _room_lines(report: RoomReport) -> list[str]:
    lines = ["", f"Rooms of {report.package}"]
    lines += _listed("imports that run up", map(str, report.upward))
    lines += _listed("circles of modules", (", ".join(circle) for circle in report.module_circles))
    lines += _edges("imports within these", report.circular)
    lines += _listed("circles of rooms", (", ".join(circle) for circle in report.room_circles))
    lines += _edges("imports within these", report.circular_rooms)
    lines += _listed("rooms without a floor", report.unplaced)
    return [*lines, *_listed("names on the floors without a room", report.missing)]


def _edges(title: str, edges: Sequence[Import]) -> list[str]:
    return _listed(title, map(str, edges)) if edges else []


def _listed(title: str, items: Iterator[str] | Sequence[str]) -> list[str]:
    found = list(items)
    return [f"  {title}: {len(found)}", *(f"{_INDENT}{item}" for item in found)]


def _path_lines(work: str, path: CallPath) -> list[str]:
    rows = [[str(place), item.file, ", ".join(item.functions)] for place, item in enumerate(path.files, 1)]
    numbers = f"{path.functions} functions, {path.calls} calls, {path.changes} changes of file"
    summary = f"{len(path.files)} files ({len(path.below_commands)} without the command line), {numbers}"
    return ["", f"Files of one {work}: {summary}", *_table(("", "file", "functions, by first call"), rows)]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded with spaces; columns of numbers stand right."""
    widths = [max(len(row[place]) for row in (headings, *rows)) for place in range(len(headings))]
    numeric = [
        bool(rows) and all(row[place].isdigit() or not row[place] for row in rows) for place in range(len(widths))
    ]
    ruler = ["-" * len(heading) for heading in headings]
    lines = []
    for row in (headings, ruler, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append((_INDENT + "  ".join(cells)).rstrip())
    return lines

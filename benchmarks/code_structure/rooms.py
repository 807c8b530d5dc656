"""Rooms of a package held against its floors: upward imports, circles, and rooms that no floor names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from code_structure.circles import find_circles
from code_structure.floors import ROOT_ROOM
from code_structure.imports import Import, package_imports
from code_structure.sources import package_modules


@dataclass(frozen=True, kw_only=True)
class Floors:
    """Ordered floors of one package.

    Args:
        package: name of the package.
        floors: rooms of each floor, from top to bottom.
    """

    package: str
    floors: Sequence[Sequence[str]]
    levels: dict[str, int] = field(init=False)
    """Room -> number of its floor; 0 is the top."""

    def __post_init__(self) -> None:
        levels = {ROOT_ROOM: 0} | {room: level for level, rooms in enumerate(self.floors, 1) for room in rooms}
        object.__setattr__(self, "levels", levels)

    def room_of(self, module: str) -> str:
        """Names the room of a module: the longest entry that leads its name, else its first part."""
        parts = module.split(".")[1:]
        if parts in ([], ["__main__"]):
            return ROOT_ROOM
        leads = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((lead for lead in leads if lead in self.levels), parts[0])

    def runs_up(self, edge: Import) -> bool:
        """Tells whether an import leads to a higher floor; rooms without a floor are :func:`check_rooms`'s matter."""
        start, end = (self.levels.get(self.room_of(name)) for name in (edge.importer, edge.imported))
        return start is not None and end is not None and end < start


@dataclass(frozen=True, kw_only=True)
class RoomReport:
    """Findings about one package.

    Attributes:
        package: name of the package.
        upward: imports that run up between rooms.
        module_circles: groups of modules that import one another in circles.
        room_circles: the same of rooms.
        circular: imports between the members of a module circle.
        circular_rooms: imports between the rooms of a room circle.
        unplaced: rooms that no floor names.
        missing: names on the floors that the package does not have.
    """

    package: str
    upward: list[Import]
    module_circles: list[list[str]]
    room_circles: list[list[str]]
    circular: list[Import]
    circular_rooms: list[Import]
    unplaced: list[str]
    missing: list[str]


def check_rooms(root: Path, package: str, floors: Sequence[Sequence[str]]) -> RoomReport:
    """Reads the imports of a package and holds them against its floors.

    Args:
        root: folder that holds the package.
        package: name of the package.
        floors: rooms of each floor, from top to bottom.
    """
    order = Floors(package=package, floors=floors)
    edges = package_imports(root, package)
    rooms = {order.room_of(module) for module in package_modules(root, package)}
    module_circles = find_circles(_graph((edge.importer, edge.imported) for edge in edges))
    between = [edge for edge in edges if order.room_of(edge.importer) != order.room_of(edge.imported)]
    room_circles = find_circles(
        _graph((order.room_of(edge.importer), order.room_of(edge.imported)) for edge in between)
    )
    return RoomReport(
        package=package,
        upward=[edge for edge in edges if order.runs_up(edge)],
        module_circles=module_circles,
        room_circles=room_circles,
        circular=[edge for edge in edges if _within(edge.importer, edge.imported, module_circles)],
        circular_rooms=[
            edge
            for edge in between
            if _within(order.room_of(edge.importer), order.room_of(edge.imported), room_circles)
        ],
        unplaced=sorted(rooms - order.levels.keys()),
        missing=sorted(order.levels.keys() - rooms - {ROOT_ROOM}),
    )


def _graph(edges: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for start, end in edges:
        graph.setdefault(start, set()).add(end)
    return graph


def _within(start: str, end: str, groups: Iterable[Sequence[str]]) -> bool:
    return any(start in group and end in group for group in groups)

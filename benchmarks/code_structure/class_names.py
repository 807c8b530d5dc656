"""Class names that a source tree uses more than once."""

import ast
from pathlib import Path

from code_structure.sources import code_files, is_generated


def repeated_class_names(root: Path, packages: tuple[str, ...]) -> dict[str, list[str]]:
    """Maps each class name that is defined twice or more to the places, as ``file:line``.

    Nested classes count; generated files do not.

    Args:
        root: folder that holds the packages.
        packages: names of the packages, counted together.
    """
    places: dict[str, list[str]] = {}
    for package in packages:
        for file in code_files(root / package):
            if is_generated(file):
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
                if isinstance(node, ast.ClassDef):
                    place = f"{file.relative_to(root).as_posix()}:{node.lineno}"
                    places.setdefault(node.name, []).append(place)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}

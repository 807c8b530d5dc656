"""Files of code in a source tree, and the modules that they are."""

from collections.abc import Iterator
from pathlib import Path

_GENERATED = "_pb2"


def code_files(folder: Path) -> list[Path]:
    """Lists the Python files below a folder, generated ones included."""
    return sorted(file for file in folder.rglob("*.py") if "__pycache__" not in file.parts)


def is_generated(file: Path) -> bool:
    """Tells whether the protobuf compiler wrote a file."""
    return _GENERATED in file.name


def module_name(file: Path, root: Path) -> str:
    """Names the module of a file by dots; ``__init__.py`` is the package itself."""
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def package_modules(root: Path, package: str) -> dict[str, Path]:
    """Maps each module of a package to its file, generated modules included."""
    return {module_name(file, root): file for file in code_files(root / package)}


def files_per_folder(root: Path, tops: tuple[str, ...]) -> dict[str, int]:
    """Counts the files of code in each folder, the fullest folder first.

    Sub-folders count for themselves. ``__init__.py`` and generated files do not count.

    Args:
        root: folder of the source tree.
        tops: folders of ``root`` to look through; one that is missing has no files.
    """
    counts: dict[str, int] = {}
    for file in _own_files(root, tops):
        folder = file.parent.relative_to(root).as_posix()
        counts[folder] = counts.get(folder, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _own_files(root: Path, tops: tuple[str, ...]) -> Iterator[Path]:
    for top in tops:
        yield from (f for f in code_files(root / top) if f.name != "__init__.py" and not is_generated(f))

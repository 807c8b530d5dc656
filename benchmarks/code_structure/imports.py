"""Imports between the modules of one package, read from the source without running it.

Every import counts: at the top of a file, inside a function, and under ``if TYPE_CHECKING``, since a reader follows
those as well. A string that is the dotted name of a module counts too, because lazy loaders import by such names. The
exception is a string behind ``"-m"`` in a list: that module runs in another process.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from code_structure.sources import package_modules


@dataclass(frozen=True, kw_only=True, order=True)
class Import:
    """One import of a module by another of the same package.

    Attributes:
        importer: dotted name of the module that imports.
        imported: dotted name of the module that is imported.
        line: number of the line in the importer's file.
        types_only: stands under ``if TYPE_CHECKING``.
    """

    importer: str
    imported: str
    line: int
    types_only: bool = False

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}{' (types only)' if self.types_only else ''}"


def package_imports(root: Path, package: str) -> list[Import]:
    """Lists the imports within a package, sorted by importer.

    Args:
        root: folder that holds the package.
        package: name of the package.

    Raises:
        SyntaxError: a file is not Python.
    """
    modules = package_modules(root, package)
    return sorted(set(_imports(modules)))


def _imports(modules: Mapping[str, Path]) -> Iterator[Import]:
    for name, file in modules.items():
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        parent = name if file.name == "__init__.py" else name.rpartition(".")[0]
        typing_lines = _typing_lines(tree)
        commands = _command_words(tree)
        for node in ast.walk(tree):
            if node in commands:
                continue
            line = getattr(node, "lineno", 0)
            for target in _targets(node, parent, modules):
                if target in modules and target != name:
                    yield Import(importer=name, imported=target, line=line, types_only=line in typing_lines)


def _targets(node: ast.AST, parent: str, modules: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = parent.split(".")[: len(parent.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            member = f"{base}.{alias.name}"
            yield member if member in modules else base
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
        yield node.value


def _typing_lines(tree: ast.Module) -> set[int]:
    """Numbers of the lines under ``if TYPE_CHECKING``."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            lines.update(range(node.body[0].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1))
    return lines


def _command_words(tree: ast.Module) -> set[ast.AST]:
    """Words behind ``"-m"`` in the lists of a module."""
    lists = (node.elts for node in ast.walk(tree) if isinstance(node, (ast.List, ast.Tuple)))
    pairs = (pair for words in lists for pair in pairwise(words))
    return {second for first, second in pairs if isinstance(first, ast.Constant) and first.value == "-m"}

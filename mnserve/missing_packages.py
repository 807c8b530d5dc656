"""Packages that a command needs and that are not installed: a sentence with the extra that brings them.

``mntrain`` has its own twin, since this package may not import it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_OWN = ("mntrain", "mnexport", "mnserve")


def missing_extra(error: ModuleNotFoundError, who: str, extra: str) -> str | None:
    """Writes the sentence about a package that an import did not find.

    Args:
        error: Error of the import.
        who: The command or name that needs the package.
        extra: Extra of this distribution that brings it.

    Returns:
        The sentence; None for a module of ours or of Python, whose absence no extra mends.
    """
    package = (error.name or "").partition(".")[0]
    if not package or package in _OWN or package in sys.stdlib_module_names:
        return None
    return (
        f"the package {package}, which {who} needs, is not installed; install the extra '{extra}', in a clone of "
        f"mn-runtime: pip install '.[{extra}]'"
    )


def names_extra(load: Callable[[str], Any], package: str, extra: str) -> Callable[[str], Any]:
    """Wraps the ``__getattr__`` of a package so that it names the extra where a name cannot be imported.

    Args:
        load: Gets a name of the package, importing what it needs.
        package: Package whose names these are.
        extra: Extra that brings what they need.

    Returns:
        The same function; it raises an ImportError with the sentence.
    """

    def load_or_name_extra(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            sentence = missing_extra(error, f"{package}.{name}", extra)
            if sentence is None:
                raise
            raise ImportError(sentence, name=error.name) from error

    return load_or_name_extra

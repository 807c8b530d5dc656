"""Models among the entries of a repository, and the folders that are none.

A model is a folder with a ``config.pbtxt`` or with a version folder (or a link for one, which may lead nowhere), or one
that cannot be looked into. What file systems, network drives and Python leave behind is none.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from errno import ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR
from pathlib import Path
from typing import Final

from mnserve.errors import RepositoryNotFoundError
from mnserve.text.names import is_text, listed

_log = logging.getLogger(__name__)

CONFIG_NAME: Final = "config.pbtxt"
MAX_VERSION_DIGITS: Final = 18
"""Digits of the longest version number: any number with as many digits fits into 64 bits."""

_NOTHING_THERE: Final = (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG)
_SYSTEM_FOLDERS: Final = frozenset(
    {
        "lost+found",
        "$recycle.bin",
        "recycler",
        "system volume information",
        "@eadir",
        "@recycle",
        "@recently-snapshot",
        "#recycle",
        "#snapshot",
        "__macosx",
        "__pycache__",
    }
)
"""Folders of file systems and network drives, which often cannot be looked into; in lower case."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Entries of a repository.

    Attributes:
        models: Names of the models, sorted.
        left_out: Name -> reason for which a folder or link is no model.
    """

    models: tuple[str, ...]
    left_out: Mapping[str, str]

    def log_left_out(self, known: Collection[str] = ()) -> None:
        """Logs what is left out, in one line, except for the names that are known."""
        new = [f"{_shown(name)} ({reason})" for name, reason in self.left_out.items() if name not in known]
        if new:
            _log.warning("left out of the model repository: %s", listed(new))


def look_through(root: Path) -> Listing:
    """Looks through a repository. Files and entries that start with a dot are passed over.

    Raises:
        RepositoryNotFoundError: ``root`` is not a folder, or cannot be read.
    """
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reasons = {ENOENT: "does not exist", ENOTDIR: "is not a folder"}
        reason = getattr(error, "strerror", None) or error
        fault = reasons.get(getattr(error, "errno", 0), f"cannot be read ({reason})")
        raise RepositoryNotFoundError(
            f"model repository '{root}' {fault}; give the folder that holds the model folders"
        ) from error
    models: list[str] = []
    left_out: dict[str, str] = {}
    for name in names:
        path = root / name
        if not is_folder(path):
            if _leads_nowhere(path):
                left_out[name] = "a link that leads to nothing"
        elif not is_text(name):
            left_out[name] = "its name is not UTF-8; rename it"
        elif name.lower() in _SYSTEM_FOLDERS:
            left_out[name] = "a folder of the system"
        elif not is_model(path):
            left_out[name] = f"neither a version folder, such as {name}/1, nor a {CONFIG_NAME}"
        else:
            models.append(name)
    return Listing(models=tuple(models), left_out=left_out)


def list_models(root: Path) -> list[str]:
    """Lists the names of the models in ``root``, sorted.

    Raises:
        RepositoryNotFoundError: ``root`` is not a folder, or cannot be read.
    """
    return list(look_through(root).models)


def is_folder(path: Path) -> bool:
    """Tells if a path is a folder; True for one on a drive that does not answer or that may not be looked at."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except ValueError:  # a NUL in the path
        return False
    except OSError as error:
        return error.errno not in _NOTHING_THERE


def is_model(folder: Path) -> bool:
    """Tells if a folder is that of a model; True for one that cannot be looked into, which is a fault to be shown."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        return error.errno not in _NOTHING_THERE  # gone meanwhile
    return CONFIG_NAME in names or any(
        os.path.isdir(folder / name) or _leads_nowhere(folder / name) for name in names if is_version(name)
    )


def version_numbers(folder: Path, names: Iterable[str]) -> list[int]:
    """Picks the version folders among the entries of a model's folder: positive integers of up to 18 digits."""
    return sorted(int(name) for name in names if is_version(name) and os.path.isdir(folder / name))


def is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= MAX_VERSION_DIGITS


def _leads_nowhere(path: Path) -> bool:
    return os.path.islink(path) and not os.path.exists(path)


def _shown(name: str) -> str:
    return f"'{name}'" if is_text(name) else repr(os.fsencode(name))

"""List a folder with all that lies in it; what cannot be used is put down with its reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mntrain.data.account import Ignored
from mntrain.data.image_files.formats import is_picture, is_table, reason_to_ignore
from mntrain.errors import DataError

_DEEPEST = 64
_MOST_LISTINGS = 256
"""Links to links double the paths at every step, so that a few folders could take for ever."""

_Identity = tuple[int, int]


class IgnoredFiles:
    """Collects the names of what is not used, by reason."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._further: list[Ignored] = []

    def add(self, reason: str, name: str) -> None:
        """Put down one file or folder."""
        self._names.setdefault(reason, []).append(name)

    def add_count(self, reason: str, count: int, example: str) -> None:
        """Put down several at once, such as the images of a split."""
        self._further.append(Ignored(reason=reason, count=count, examples=(example,)))

    def account(self) -> tuple[Ignored, ...]:
        """Return a record for each reason, names in order."""
        named = tuple(Ignored.of(reason, sorted(names)) for reason, names in self._names.items())
        return named + tuple(self._further)


@dataclass(frozen=True, kw_only=True)
class Folder:
    """One folder.

    Args:
        name: its own name; empty for the folder that was listed.
        inside: its path within the folder that was listed, such as "train/cat"; empty for that folder itself.
        folders: the folders in it, by name.
        pictures: names of the picture files in it, sorted.
        tables: names of the table files in it, sorted.
    """

    name: str
    inside: str
    folders: tuple[Folder, ...]
    pictures: tuple[str, ...]
    tables: tuple[str, ...]

    def within(self, name: str) -> str:
        """Return the path of a file of this folder within the folder that was listed."""
        return f"{self.inside}/{name}" if self.inside else name

    def own_pictures(self) -> list[str]:
        """Return the paths of the pictures right in this folder."""
        return [self.within(name) for name in self.pictures]

    def deeper_pictures(self) -> list[str]:
        """Return the paths of the pictures in its folders, at any depth."""
        return [path for folder in self.folders for path in folder.all_pictures()]

    def all_pictures(self) -> list[str]:
        """Return the paths of all pictures at any depth."""
        return self.own_pictures() + self.deeper_pictures()

    def has_pictures(self) -> bool:
        """Tell if there is a picture at any depth."""
        return bool(self.pictures) or any(folder.has_pictures() for folder in self.folders)

    def walk(self) -> Iterator[Folder]:
        """Return this folder and all folders in it."""
        yield self
        for folder in self.folders:
            yield from folder.walk()


def list_tree(path: Path, ignored: IgnoredFiles) -> Folder:
    """List ``path``; hidden files, other kinds of files and broken or circular links go to ``ignored``.

    Links to files and folders are followed.

    Raises:
        DataError: a folder cannot be listed, folders lie more than 64 deep, links lead to the same one more than 256
            times, or a name is no valid UTF-8.
    """
    return _list(path, "", "", _Listing(ignored=ignored), ())


@dataclass(frozen=True, kw_only=True)
class _Listing:
    """What a listing has met: names that are not used, and how often each folder came up."""

    ignored: IgnoredFiles
    times: Counter[_Identity] = field(default_factory=Counter)


def _list(path: Path, name: str, inside: str, listing: _Listing, above: tuple[_Identity, ...]) -> Folder:
    ignored = listing.ignored
    if len(above) > _DEEPEST:
        raise DataError(f"'{path}' lies more than {_DEEPEST} folders deep; set data.path to a folder nearer to it.")
    try:
        status = os.stat(path)
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(
            f"'{path}' cannot be listed ({error.strerror or error}); allow it to be read, or move it away."
        ) from error
    folders, pictures, tables = [], [], []
    identity = (status.st_dev, status.st_ino)
    listing.times[identity] += 1
    if listing.times[identity] > _MOST_LISTINGS:
        raise DataError(
            f"Links lead to the folder of '{path}' more than {_MOST_LISTINGS} times; remove those that are not meant."
        )
    line = (*above, identity)
    for entry in entries:
        own = f"{inside}/{entry.name}" if inside else entry.name
        if entry.name.startswith("."):
            _hide(entry, own, ignored)
            continue
        _check_name(entry, own)
        if entry.is_dir():
            target = os.stat(entry.path)
            if (target.st_dev, target.st_ino) in line:
                ignored.add("links back to a folder above", own)
            else:
                folders.append(_list(Path(entry.path), entry.name, own, listing, line))
        elif not entry.is_file():
            broken = entry.is_symlink() and not os.path.exists(entry.path)
            ignored.add("links to nothing" if broken else "pipes, sockets and devices", own)
        elif is_picture(entry.name):
            pictures.append(entry.name)
        elif is_table(entry.name):
            tables.append(entry.name)
        else:
            ignored.add(reason_to_ignore(entry.name), own)
    return Folder(name=name, inside=inside, folders=tuple(folders), pictures=tuple(pictures), tables=tuple(tables))


def _check_name(entry: os.DirEntry[str], own: str) -> None:
    try:
        entry.name.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{own!a} in '{entry.path.removesuffix(own)}' has a name that is no valid UTF-8; rename it."
        ) from error


def _hide(entry: os.DirEntry[str], own: str, ignored: IgnoredFiles) -> None:
    """Put down a hidden file, or every file in a hidden folder."""
    reason = "hidden (a name that starts with a dot)"
    files = []
    if entry.is_dir(follow_symlinks=False):
        root = os.path.dirname(entry.path)
        prefix = own[: -len(entry.name)]
        files = [
            prefix + os.path.relpath(os.path.join(folder, name), root)
            for folder, _, names in os.walk(entry.path)
            for name in names
        ]
    for file in files or [own]:
        ignored.add(reason, file)

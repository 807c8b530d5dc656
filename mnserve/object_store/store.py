"""One repository in an object store: its models, their files with entity tags, and their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from mnserve.errors import CorruptModelError, MnServeError, ModelNotFoundError, StoreError
from mnserve.object_store.deadline import within
from mnserve.object_store.entries import (
    MAX_DEPTH,
    StoredFile,
    bad_name,
    check_paths,
    is_passed_over,
    stored_file,
    without_twins,
)
from mnserve.object_store.failures import describe, within_file
from mnserve.object_store.libraries import open_filesystem
from mnserve.object_store.url import StoreUrl
from mnserve.text.names import printable, shortened

CHUNK: Final = 8 * 1024 * 1024
"""Bytes that are read at once."""
_MAX_ENTRIES: Final = 10_000
"""Most entries of a repository, and most files of a model; more are a wrong URL."""
_FLAT: Final = ("s3", "gs", "hf", "abfs")
"""Stores that list a whole tree in one request for each thousand files."""
_Result = TypeVar("_Result")


class Store:
    """A repository in an object store. It is only read.

    Args:
        url: URL of the repository.
        timeout: Seconds in which the store has to answer, or to send the next 8 MiB.

    Raises:
        SettingsError: The package of the store is not installed.
    """

    def __init__(self, url: StoreUrl, timeout: float) -> None:
        self.url = url
        self._timeout = timeout
        self._files = open_filesystem(url, timeout)

    def models(self) -> tuple[list[str], dict[str, str]]:
        """Lists the folders of the repository, sorted, and what cannot be a model with the reason.

        Raises:
            StoreError: The store does not answer, refuses, or lists too much.
        """
        entries = self._call("the model folders", lambda: self._list(self._root()))
        self._check_count(len(entries), "the repository")
        names: list[str] = []
        left_out: dict[str, str] = {}
        for name, info in entries.items():
            if name.startswith(".") or info.get("type") != "directory":
                continue
            if fault := bad_name(name):
                left_out[printable(shortened(name))] = f"its name {fault}"
            else:
                names.append(name)
        return without_twins(sorted(names), left_out), left_out

    def files(self, name: str) -> list[StoredFile]:
        """Lists the files of a model, without those whose name, or whose folder's name, begins with a dot.

        The files of a web server have no sizes and tags yet; see :meth:`with_tags`.

        Raises:
            StoreError: The store does not answer, refuses, or lists too much.
            ModelNotFoundError: There is no such model.
            CorruptModelError: A name cannot be one of a file on this disk.
        """
        if bad_name(name) or name.startswith("."):
            raise ModelNotFoundError(f"the repository {self.url.shown} has no model '{printable(shortened(name))}'")
        found: dict[str, Mapping[str, Any]] = self._call(f"model '{name}'", lambda: self._find(name), missing={})
        self._check_count(len(found), f"model '{name}'")
        files = {path: info for path, info in found.items() if not is_passed_over(path.split("/"))}
        if not files:
            raise ModelNotFoundError(f"the repository {self.url.shown} has no model '{name}', or no files of it")
        check_paths(name, files)
        return [stored_file(path, str(info["name"]), info) for path, info in sorted(files.items())]

    def with_tags(self, files: list[StoredFile]) -> list[StoredFile]:
        """Asks for the sizes and entity tags of files that were listed without.

        Raises:
            StoreError: The store does not answer, or a file of a web server has neither a tag nor a time, or a file has
                no size, so that it could fill the disk.
        """
        tagged = []
        for file in files:
            if self.url.is_web:
                info = self._call(f"the file '{file.path}'", lambda remote=file.remote: self._files.info(remote))  # type: ignore[misc]
                file = stored_file(file.path, file.remote, info)
            tagged.append(file)
            if file.size is None or (file.tag is None and self.url.is_web):
                header = "no Content-Length" if file.size is None else "neither ETag nor Last-Modified"
                lacking = f"sends {header} with" if self.url.is_web else "does not tell the size of"
                raise StoreError(
                    f"the object store of {self.url.shown} {lacking} '{file.path}', so that a copy could not be "
                    "compared with it; switch that on"
                )
        return tagged

    def read(self, file: StoredFile, offset: int = 0) -> Iterator[bytes]:
        """Reads a file in pieces.

        Args:
            file: The file.
            offset: Bytes to leave out.

        Raises:
            StoreError: The store does not answer, or refuses.
            NoRangesError: It cannot begin within a file.
        """
        what = f"the file '{printable(file.path)}'"
        stream = self._call(what, lambda: within_file(offset, lambda: self._open(file, offset)))
        try:
            piece: bytes = self._call(what, lambda: within_file(offset, lambda: stream.read(CHUNK)))
            while piece:
                yield piece
                piece = self._call(what, lambda: stream.read(CHUNK))
        finally:
            self._call(what, stream.close)

    def _open(self, file: StoredFile, offset: int) -> Any:
        # A web server need not know ranges; from the beginning it is asked for everything at once.
        streamed = self.url.is_web and not offset
        options = {"block_size": 0} if streamed else {"block_size": CHUNK, "cache_type": "none"}
        stream = self._files.open(file.remote, "rb", **options)
        if offset:
            stream.seek(offset)
        return stream

    def _root(self) -> str:
        if self.url.scheme == "hf":
            return str(self._files.resolve_path(self.url.path).unresolve())
        return str(self._files._strip_protocol(self.url.path)).rstrip("/")

    def _list(self, folder: str) -> dict[str, Mapping[str, Any]]:
        """Lists one folder: name -> what the store tells."""
        self._files.invalidate_cache()
        base = f"{folder}/"
        entries: dict[str, Mapping[str, Any]] = {}
        for info in self._files.ls(base if self.url.is_web else folder, detail=True):
            remote = str(info["name"])
            name = remote.rstrip("/").removeprefix(base)
            if not remote.startswith(base) or not name or (self.url.is_web and name[0] in "?#"):
                continue  # the folder itself, and links to other pages
            entries[self._local(name)] = {**info, **self._link_target(info), "name": remote}
        return entries

    def _link_target(self, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """Tells kind, size and time of what a link of a folder leads to."""
        if self.url.scheme != "file" or not info.get("islink"):
            return {}
        try:
            status = os.stat(info["name"])
        except OSError:
            return {"type": "other"}
        kind = "directory" if stat.S_ISDIR(status.st_mode) else "file" if stat.S_ISREG(status.st_mode) else "other"
        return {"type": kind, "size": status.st_size, "mtime": status.st_mtime, "ino": status.st_ino}

    def _find(self, model: str) -> dict[str, Mapping[str, Any]]:
        """Lists the files of a model: path in its folder -> what the store tells."""
        if self.url.scheme in _FLAT:
            self._files.invalidate_cache()
            base = f"{self._root()}/{model}/"
            tree: dict[str, Mapping[str, Any]] = self._files.find(base.rstrip("/"), detail=True)
            return {
                remote.removeprefix(base): {**info, "name": remote}
                for remote, info in tree.items()
                if remote.startswith(base) and info.get("type") != "directory" and not remote.endswith("/")
            }
        folder = f"{self._root()}/{quote(model) if self.url.is_web else model}"
        self._check_link(model, {"name": folder, "islink": True})
        found: dict[str, Mapping[str, Any]] = {}
        folders, visited = [("", folder, 1)], 0
        while folders and visited + len(found) <= _MAX_ENTRIES:
            prefix, folder, depth = folders.pop()
            visited += 1
            for name, info in self._list(folder).items():
                self._check_link(model, info)
                if info.get("type") == "directory":
                    if depth < MAX_DEPTH and not name.startswith(".") and bad_name(name) is None:
                        folders.append((f"{prefix}{name}/", str(info["name"]).rstrip("/"), depth + 1))
                elif info.get("type") == "file":
                    found[f"{prefix}{name}"] = info
        return found

    def _check_link(self, model: str, info: Mapping[str, Any]) -> None:
        """Checks that a link of a folder stays in the repository.

        Raises:
            CorruptModelError: It leads out of it.
        """
        if self.url.scheme != "file" or not info.get("islink"):
            return
        target, root = os.path.realpath(info["name"]), os.path.realpath(self.url.path)
        if not target.startswith(f"{root}/"):
            raise CorruptModelError(
                f"model '{model}': {info['name']} is a link out of the repository; put the file there, or serve the "
                "folder without file://"
            )

    def _local(self, name: str) -> str:
        return unquote(name, errors="surrogateescape") if self.url.is_web else name

    def _check_count(self, count: int, what: str) -> None:
        if count > _MAX_ENTRIES:
            raise StoreError(
                f"{what} at {self.url.shown} has more than {_MAX_ENTRIES} entries; is it the folder that holds the "
                "model folders?"
            )

    def _call(self, what: str, call: Callable[[], _Result], missing: _Result | None = None) -> _Result:
        """Calls a library within the time limit; its errors become ours, without credentials.

        Args:
            what: The part of the repository, for messages.
            call: What to do.
            missing: Result where there is nothing; without it that is an error.
        """
        try:
            return within(self._timeout, call)
        except MnServeError:
            raise
        except Exception as error:  # noqa: BLE001 (each library has its own errors)
            fault = describe(error, self.url, what)
            if missing is not None and type(fault) is StoreError and isinstance(error, FileNotFoundError):
                return missing
            raise fault from None

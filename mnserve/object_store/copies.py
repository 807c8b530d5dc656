"""Copies of one model in the cache: found again and verified, or made from downloads and files of earlier copies."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnserve.atomic_files import write_atomically
from mnserve.errors import CorruptModelError, OutputError
from mnserve.object_store.cache import Cache, explained
from mnserve.object_store.download import download, file_digest
from mnserve.object_store.entries import StoredFile, digest_of
from mnserve.object_store.room import NEW, PARTIAL, make_room, remove_copy
from mnserve.object_store.store import Store
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import is_version
from mnserve.repository.model_files import EXPORT_NAME, ModelFiles, read_export, verify


@dataclass(frozen=True, kw_only=True)
class CopySource:
    """What a copy is made from.

    Attributes:
        store: The store.
        cache: The cache.
        limit: Most bytes of the cache; 0 for no limit.
        stopped: Set when the process ends.
    """

    store: Store
    cache: Cache
    limit: int
    stopped: threading.Event


def find_copy(folder: Path, files: Sequence[StoredFile]) -> Path | None:
    """Finds a complete copy of these files, and compares it with its SHA-256 digests. A damaged one is removed."""
    copy = folder / digest_of(files)
    manifest = _read_manifest(copy)
    if manifest is None:
        shutil.rmtree(copy, ignore_errors=True)
        return None
    if all(_is_whole(copy / path, entry) for path, entry in manifest.items()):
        with contextlib.suppress(OSError):
            os.utime(copy.with_suffix(".json"))
        return copy
    remove_copy(copy)
    return None


def make_copy(source: CopySource, folder: Path, name: str, files: Sequence[StoredFile]) -> Path:
    """Makes a copy of a model, which stands in its place once it is complete and verified.

    Args:
        source: What it is made from.
        folder: Folder of the model in the cache, whose lock the caller holds.
        name: Name of the model.
        files: Its files.

    Raises:
        StoreError: The store does not answer or refuses; what has arrived stays, for the next time.
        CorruptModelError: Files are not what the store, or export.json beside them, says.
        ModelCacheError: There is no room, or the folder cannot be written to.
        StoppingError: The process ends.
    """
    partial, new = folder / PARTIAL, folder / f"{NEW}{secrets.token_hex(6)}"
    wanted = {file.key for file in files}
    with explained(folder):
        partial.mkdir(exist_ok=True, mode=0o700)
        for leftover in [*folder.glob(f"{NEW}*"), *(item for item in partial.iterdir() if item.name not in wanted)]:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        earlier = _earlier_files(folder)
        new.mkdir(mode=0o700)
    try:
        missing = [file for file in files if not _link_earlier(earlier.get(file.key), new / file.path)]
        arrived = sum(item.stat().st_size for item in partial.iterdir())
        make_room(source.cache, max(0, sum(file.size or 0 for file in missing) - arrived), source.limit, folder)
        digests = {path: entry["sha256"] for path, entry in earlier.values()}
        entries: dict[str, dict[str, Any]] = {}
        for file in files:
            if file in missing:
                sha256 = download(source.store, name, file, partial / file.key, source.stopped)
                with explained(folder):
                    (new / file.path).parent.mkdir(parents=True, exist_ok=True)
                    os.link(partial / file.key, new / file.path)
            else:
                sha256 = digests[earlier[file.key][0]]
            entries[file.path] = {"key": file.key, "size": (new / file.path).stat().st_size, "sha256": sha256}
        _verify_export(new, name, entries)
        return _put_in_place(new, folder / digest_of(files), entries)
    except CorruptModelError:
        for file in files:
            (partial / file.key).unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if (folder / digest_of(files)).exists():
            shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(new: Path, copy: Path, entries: Mapping[str, Mapping[str, Any]]) -> Path:
    with explained(copy.parent):
        shutil.rmtree(copy, ignore_errors=True)
        try:
            write_atomically(copy.with_suffix(".json"), json.dumps({"files": entries}).encode())
        except OutputError as error:
            raise OSError(str(error)) from error
        os.rename(new, copy)
    return copy


def _verify_export(new: Path, name: str, paths: Mapping[str, object]) -> None:
    """Compares the files of each version with the hashes that were published beside them.

    Raises:
        CorruptModelError: They differ.
    """
    for version in sorted({first for path in paths if is_version(first := path.partition("/")[0])}):
        folder = new / version
        export = read_export(folder / EXPORT_NAME, name)
        files = ModelFiles(
            name=name,
            version=int(version),
            config=ModelConfig(name=name),
            version_folder=folder,
            model_path=folder,
            export=export,
        )
        try:
            verify(files)
        except CorruptModelError as error:
            reason = str(error).replace(f"{new}/", "")
            raise CorruptModelError(
                f"{reason}; this is the copy that has just come from the object store: upload the version again"
            ) from error


def _earlier_files(folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Lists the files of earlier copies: key -> path on disk, and what the manifest tells."""
    found = {}
    for manifest_file in folder.glob("*.json"):
        copy = manifest_file.with_suffix("")
        for path, entry in (_read_manifest(copy) or {}).items():
            found[str(entry["key"])] = (str(copy / path), entry)
    return found


def _link_earlier(earlier: tuple[str, dict[str, Any]] | None, target: Path) -> bool:
    """Links a file of an earlier copy, if it is whole, so that it is neither downloaded nor stored again."""
    if earlier is None or not _is_whole(Path(earlier[0]), earlier[1]):
        return False
    with explained(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(earlier[0], target)
    return True


def _is_whole(path: Path, entry: Mapping[str, Any]) -> bool:
    try:
        return bool(path.stat().st_size == entry["size"] and file_digest(path, "sha256") == entry["sha256"])
    except OSError:
        return False


def _read_manifest(copy: Path) -> dict[str, dict[str, Any]] | None:
    try:
        if not copy.is_dir():
            return None
        files = json.loads(copy.with_suffix(".json").read_text())["files"]
        return {
            str(path): {**entry, "key": entry["key"], "size": entry["size"], "sha256": entry["sha256"]}
            for path, entry in files.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None

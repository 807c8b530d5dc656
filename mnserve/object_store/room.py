"""Room for a new copy: the bound of the cache, the free disk, and the copies that are removed for it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mnserve.errors import ModelCacheError
from mnserve.object_store.cache import Cache, explained, try_lock
from mnserve.object_store.view import linked_copies

_SPARE: Final = 16 * 1024 * 1024
"""Bytes of the disk that are left free."""
PARTIAL: Final = ".partial"
"""Folder of a model's downloads."""
NEW: Final = ".new-"
"""Begin of the name of a copy in the making."""
_MODELS: Final = f"{'[0-9a-f]' * 16}/*"
_COPIES: Final = "[0-9a-f]" * 32
"""Patterns of the folders of models and of the names of copies: what else lies there is not ours."""


def make_room(cache: Cache, needed: int, limit: int, folder: Path) -> None:
    """Removes copies and interrupted downloads, the longest unused first, until there is room.

    Copies that a process serves stay, and so do downloads that go on.

    Args:
        cache: The cache.
        needed: Bytes of the new copy.
        limit: Most bytes of the cache; 0 for no limit.
        folder: Folder of the model in the cache, whose lock the caller holds.

    Raises:
        ModelCacheError: There is no room for it.
    """
    with explained(cache.folder):
        if _lacking(cache, needed, limit) <= 0:
            return
        in_use = linked_copies(cache)
        for item in sorted(_removable(cache, folder), key=_last_use):
            if str(item.with_suffix("")) not in in_use:
                _remove(item, cache, folder)
                if _lacking(cache, needed, limit) <= 0:
                    return
        lacking = _lacking(cache, needed, limit)
    if lacking > 0:
        bound = f"a bound of {limit} bytes (--model-cache-bytes)" if limit else "no bound of its own"
        free = shutil.disk_usage(cache.folder).free
        raise ModelCacheError(
            f"model '{folder.name}' needs {needed} bytes more in {cache.folder}, which has {bound} and {free} free on "
            f"its disk, and {lacking} bytes are lacking; make room, raise the bound, or name another folder with "
            "--model-cache"
        )


def remove_copy(copy: Path) -> None:
    """Removes a copy with its manifest; what a process has open of it stays readable there."""
    with contextlib.suppress(OSError):
        copy.with_suffix(".json").unlink()
    shutil.rmtree(copy, ignore_errors=True)


def _removable(cache: Cache, own: Path) -> Iterator[Path]:
    """Lists the manifests of all copies, and what interrupted downloads of other models have left."""
    yield from cache.repositories.glob(f"{_MODELS}/{_COPIES}.json")
    for pattern in (PARTIAL, f"{NEW}*"):
        yield from (path for path in cache.repositories.glob(f"{_MODELS}/{pattern}") if path.parent != own)


def _remove(item: Path, cache: Cache, own: Path) -> None:
    """Removes a copy or a download, unless another process works in its folder, or has begun to serve the copy."""
    handle = None
    if item.parent != own and (handle := try_lock(item.parent / ".lock")) is None:
        return
    try:
        if item.suffix != ".json":
            shutil.rmtree(item, ignore_errors=True)
        elif str(item.with_suffix("")) not in linked_copies(cache):
            remove_copy(item.with_suffix(""))
    finally:
        if handle is not None:
            os.close(handle)


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _lacking(cache: Cache, needed: int, limit: int) -> int:
    """Returns how many bytes are too few; 0 or less where there is room."""
    on_disk = needed + _SPARE - shutil.disk_usage(cache.folder).free if needed else 0
    return max(on_disk, needed + _used(cache) - limit if limit else on_disk)


def _used(cache: Cache) -> int:
    """Adds the sizes up; copies share files that have not changed between them."""
    return sum(dict(_sizes(cache.repositories)).values())


def _sizes(folder: Path) -> Iterator[tuple[int, int]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(parent, name))
                yield status.st_ino, status.st_size

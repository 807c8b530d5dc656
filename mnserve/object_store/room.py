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


def make_room(cache: Cache, needed: int, limit: int, model: str) -> None:
    """Removes copies, the longest unused first, until there is room. Copies that a process serves stay.

    Args:
        cache: The cache; the caller holds the lock of the model's folder, whose copies stay.
        needed: Bytes of the new copy.
        limit: Most bytes of the cache; 0 for no limit.
        model: Name of the model, for messages.

    Raises:
        ModelCacheError: There is no room for it.
    """
    with explained(cache.folder):
        if _lacking(cache, needed, limit) <= 0:
            return
        in_use = linked_copies(cache)
        for manifest in sorted(cache.repositories.glob("*/*/*.json"), key=_last_use):
            if str(manifest.with_suffix("")) not in in_use:
                _remove(manifest, cache)
                if _lacking(cache, needed, limit) <= 0:
                    return
        lacking = _lacking(cache, needed, limit)
    if lacking > 0:
        bound = f"a bound of {limit} bytes (--model-cache-bytes)" if limit else "no bound of its own"
        free = shutil.disk_usage(cache.folder).free
        raise ModelCacheError(
            f"model '{model}' needs {needed} bytes more in {cache.folder}, which has {bound} and {free} free on its "
            f"disk, and {lacking} bytes are lacking; make room, raise the bound, or "
            "name another folder with --model-cache"
        )


def remove_copy(copy: Path) -> None:
    """Removes a copy with its manifest; what a process has open of it stays readable there."""
    with contextlib.suppress(OSError):
        copy.with_suffix(".json").unlink()
    shutil.rmtree(copy, ignore_errors=True)


def _remove(manifest: Path, cache: Cache) -> None:
    """Removes a copy, unless another process works in its folder, or has begun to serve the copy."""
    handle = try_lock(manifest.parent / ".lock")
    if handle is not None:
        copy = manifest.with_suffix("")
        if str(copy) not in linked_copies(cache):
            remove_copy(copy)
            shutil.rmtree(manifest.parent / ".partial", ignore_errors=True)
        os.close(handle)


def _last_use(manifest: Path) -> float:
    try:
        return manifest.stat().st_mtime
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

"""Regions of POSIX shared memory in which callers on this machine leave inputs and find outputs.

Regions are read and written by copies, not mapped: a caller may shorten a region at any time, and a mapped page that is
gone ends the process. A copy also keeps what was checked from being changed afterwards.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mnserve.errors import InvalidRequestError, RegionExistsError, UnknownRegionError

__all__ = ["MAX_REGIONS", "Region", "Regions", "Slice"]

MAX_REGIONS: Final = 1024
"""Most regions at a time; each keeps a file open."""
_FOLDER: Final = Path("/dev/shm")
_KEY: Final = re.compile(r"/?(?!\.{1,2}$)[A-Za-z0-9_.-]{1,254}")
_MAX_NAME: Final = 256


@dataclass(frozen=True, kw_only=True)
class Region:
    """A part of a shared memory object.

    Attributes:
        name: What callers call it.
        key: Name of the object, as shm_open takes it.
        offset: First byte of it that belongs to the region.
        byte_size: How many do.
    """

    name: str
    key: str
    offset: int
    byte_size: int


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Where one tensor lies.

    Attributes:
        region: Name of a region.
        offset: First byte in it.
        byte_size: Bytes of room.
    """

    region: str
    offset: int
    byte_size: int


class _Opened:
    """A region with its open file, which no other may take the place of while somebody uses it."""

    def __init__(self, region: Region, handle: int) -> None:
        self.region = region
        self.handle = handle
        self.lock = threading.Lock()
        self.closed = False

    def close(self) -> None:
        with self.lock:
            self.closed = True
            os.close(self.handle)


class Regions:
    """The regions that callers have registered. Any thread may read and write; registering is for one thread.

    Args:
        folder: Where the objects are files.
    """

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._open: dict[str, _Opened] = {}

    def register(self, region: Region) -> None:
        """Makes a region known.

        Raises:
            RegionExistsError: The name is taken.
            InvalidRequestError: The name or key cannot be, there is no such object, or it is smaller.
        """
        if not 0 < len(region.name) <= _MAX_NAME:
            raise InvalidRequestError(f"the name of a region has 1 to {_MAX_NAME} characters, not {len(region.name)}")
        if region.name in self._open:
            raise RegionExistsError(f"there is a shared memory region '{region.name}' already; unregister it first")
        if len(self._open) >= MAX_REGIONS:
            raise InvalidRequestError(f"there are {MAX_REGIONS} shared memory regions already; unregister some")
        if not _KEY.fullmatch(region.key):
            raise InvalidRequestError(
                f"the key of region '{region.name}' is {region.key[:64]!r}; it has to be the name of a shared memory "
                "object: an optional slash, then letters, digits, dots, dashes and underscores"
            )
        if region.byte_size < 1:
            raise InvalidRequestError(f"region '{region.name}' has {region.byte_size} bytes, expected at least 1")
        try:
            handle = os.open(self._folder / region.key.removeprefix("/"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise InvalidRequestError(
                f"the shared memory object '{region.key}' of region '{region.name}' cannot be opened: {error.strerror}"
            ) from error
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or region.offset + region.byte_size > status.st_size:
            os.close(handle)
            raise InvalidRequestError(
                f"region '{region.name}' ends at byte {region.offset + region.byte_size}, but the shared memory object "
                f"'{region.key}' has {status.st_size}"
            )
        self._open[region.name] = _Opened(region, handle)

    def unregister(self, name: str = "") -> None:
        """Forgets a region, or all of them; one that is not there is no error."""
        for one in [name] if name else list(self._open):
            if one in self._open:
                self._open.pop(one).close()

    def status(self, name: str = "") -> Mapping[str, Region]:
        """One region, or all of them, by name.

        Raises:
            UnknownRegionError: There is no such region.
        """
        if name and name not in self._open:
            raise UnknownRegionError(f"there is no shared memory region '{name[:64]}'; register it first")
        return {one: opened.region for one, opened in self._open.items() if name in ("", one)}

    def check(self, where: Slice, what: str) -> None:
        """Whether a slice lies in its region.

        Raises:
            InvalidRequestError: It does not, or there is no such region.
        """
        self._place(where, what)

    def read(self, where: Slice, what: str) -> bytes:
        """A copy of what lies there.

        Args:
            where: The slice.
            what: How messages name the tensor.

        Raises:
            InvalidRequestError: It does not lie in a region, or the object has become shorter.
        """
        opened, start = self._place(where, what)
        with opened.lock:
            found = b"" if opened.closed else os.pread(opened.handle, where.byte_size, start)
        if len(found) != where.byte_size:
            raise InvalidRequestError(_gone(where, what))
        return found

    def write(self, where: Slice, content: bytes, what: str) -> None:
        """Puts bytes there, at most as many as there is room.

        Raises:
            InvalidRequestError: There is less room, or the object has become shorter.
        """
        opened, start = self._place(where, what)
        if len(content) > where.byte_size:
            raise InvalidRequestError(
                f"{what} has {len(content)} bytes, more than the {where.byte_size} it has in region '{where.region}'"
            )
        with opened.lock:
            # Writing behind the end would make the object longer again.
            if opened.closed or os.fstat(opened.handle).st_size < start + len(content):
                raise InvalidRequestError(_gone(where, what))
            os.pwrite(opened.handle, content, start)

    def _place(self, where: Slice, what: str) -> tuple[_Opened, int]:
        opened = self._open.get(where.region)
        if opened is None:
            raise InvalidRequestError(
                f"{what} lies in the shared memory region '{where.region[:64]}', which nobody registered"
            )
        region = opened.region
        if where.offset < 0 or where.byte_size < 0 or where.offset + where.byte_size > region.byte_size:
            raise InvalidRequestError(
                f"{what} takes {where.byte_size} bytes from {where.offset} of region '{where.region}', which has "
                f"{region.byte_size}"
            )
        return opened, region.offset + where.offset


def _gone(where: Slice, what: str) -> str:
    return f"{what}: region '{where.region}' was unregistered meanwhile, or its shared memory object has become shorter"

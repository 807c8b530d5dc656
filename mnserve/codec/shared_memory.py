"""Regions of POSIX shared memory in which callers on this machine leave inputs and find outputs.

Regions are read and written by copies, not mapped. A caller may shorten a region at any time, and a mapped page that is
gone ends the process. A copy also keeps checked values from being changed afterwards.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mnserve.errors import InvalidRequestError, RegionExistsError, UnknownRegionError

MAX_REGIONS: Final = 1024
"""Most regions at a time; each keeps a file open."""
_FOLDER: Final = Path("/dev/shm")
_KEY: Final = re.compile(r"/?(?!\.{1,2}$)[A-Za-z0-9_.-]{1,254}")
_MAX_NAME: Final = 256
_LENGTH: Final = struct.Struct("<I")
_WINDOW: Final = 2**16


@dataclass(frozen=True, kw_only=True)
class Region:
    """A part of a shared memory object.

    Attributes:
        name: Name that callers use.
        key: Name of the object, as shm_open takes it.
        offset: First byte of the object that belongs to the region.
        byte_size: Number of bytes.
    """

    name: str
    key: str
    offset: int
    byte_size: int


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Place of one tensor.

    Attributes:
        region: Name of a region.
        offset: First byte in it.
        byte_size: Number of bytes.
    """

    region: str
    offset: int
    byte_size: int


class _Opened:
    """A region with its open file, which stays open during every read and write; closing waits for none of them."""

    def __init__(self, region: Region, handle: int) -> None:
        self.region = region
        self._handle = handle
        self._lock = threading.Lock()
        self._users = 1  # itself, until it is closed

    def close(self) -> None:
        self._leave()

    @contextmanager
    def used(self) -> Iterator[int | None]:
        """Keeps the file open, and gives its handle; None where the region is closed."""
        with self._lock:
            closed = not self._users
            self._users += not closed
        try:
            yield None if closed else self._handle
        finally:
            if not closed:
                self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                os.close(self._handle)


class Regions:
    """Regions that callers have registered. Any thread may read and write; registering is for one thread.

    Args:
        folder: Folder in which the objects are files.
        max_bytes: Most bytes of one tensor that is read.
    """

    def __init__(self, folder: Path = _FOLDER, *, max_bytes: int = 2**30) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._open: dict[str, _Opened] = {}

    def register(self, region: Region) -> None:
        """Registers a region.

        Raises:
            RegionExistsError: The name is taken.
            InvalidRequestError: The name or key is invalid, there is no such object, or it is smaller.
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
        """Forgets a region, or all of them; an unknown region is no error."""
        for region in [name] if name else list(self._open):
            if region in self._open:
                self._open.pop(region).close()

    def status(self, name: str = "") -> Mapping[str, Region]:
        """Lists one region, or all of them, by name.

        Raises:
            UnknownRegionError: There is no such region.
        """
        if name and name not in self._open:
            raise UnknownRegionError(f"there is no shared memory region '{name[:64]}'; register it first")
        return {opened.region.name: opened.region for opened in self._open.values() if name in ("", opened.region.name)}

    def check(self, place: Slice, what: str) -> None:
        """Checks that a slice lies in its region.

        Raises:
            InvalidRequestError: It does not, or there is no such region.
        """
        self._locate(place, what)

    def read(self, place: Slice, what: str) -> bytes:
        """Copies the bytes of a slice.

        Args:
            place: The slice.
            what: Name of the tensor, for messages.

        Raises:
            InvalidRequestError: It does not lie in a region, is larger than a tensor may be, or the object has become
                shorter.
        """
        opened, start = self._locate(place, what)
        if place.byte_size > self._max_bytes:
            raise InvalidRequestError(
                f"{what} has {place.byte_size} bytes in shared memory, expected at most {self._max_bytes}; send fewer "
                "rows, or start the server with a larger --max-queue-bytes"
            )
        with opened.used() as handle:
            content = b"" if handle is None else _read(handle, start, place.byte_size)
        if len(content) != place.byte_size:
            raise InvalidRequestError(_gone(place, what))
        return content

    def check_strings(self, place: Slice, count: int, what: str) -> None:
        """Adds the lengths of the elements of a BYTES tensor up, before any of them is read.

        Args:
            place: Slice of the tensor, elements of a length in four bytes and as many bytes.
            count: Number of elements.
            what: Name of the tensor, for messages.

        Raises:
            InvalidRequestError: They do not make up the slice, it does not lie in a region, or the object has become
                shorter.
        """
        opened, start = self._locate(place, what)
        position, window, window_start = 0, b"", 0
        with opened.used() as handle:
            for _ in range(count):
                behind = position + _LENGTH.size
                if handle is None or behind > place.byte_size:
                    break
                if not window_start <= position <= behind <= window_start + len(window):
                    window_start = position
                    window = os.pread(handle, min(_WINDOW, place.byte_size - position), start + position)
                    if len(window) < _LENGTH.size:
                        raise InvalidRequestError(_gone(place, what))
                position = behind + _LENGTH.unpack_from(window, position - window_start)[0]
        if handle is None:
            raise InvalidRequestError(_gone(place, what))
        if position != place.byte_size:
            raise InvalidRequestError(
                f"{what} has {place.byte_size} bytes in shared memory, which the lengths of its {count} elements of "
                "BYTES do not make up"
            )

    def write(self, place: Slice, content: bytes, what: str) -> None:
        """Writes bytes into a slice, at most as many as it has.

        Raises:
            InvalidRequestError: There is less room, or the object has become shorter.
        """
        opened, start = self._locate(place, what)
        if len(content) > place.byte_size:
            raise InvalidRequestError(
                f"{what} has {len(content)} bytes, more than the {place.byte_size} it has in region '{place.region}'"
            )
        with opened.used() as handle:
            # Writing behind the end would make the object longer again.
            if handle is None or os.fstat(handle).st_size < start + len(content):
                raise InvalidRequestError(_gone(place, what))
            left = memoryview(content)
            while left:
                written = os.pwrite(handle, left, start)
                left, start = left[written:], start + written

    def _locate(self, place: Slice, what: str) -> tuple[_Opened, int]:
        opened = self._open.get(place.region)
        if opened is None:
            raise InvalidRequestError(
                f"{what} lies in the shared memory region '{place.region[:64]}', which nobody registered"
            )
        region = opened.region
        if place.offset < 0 or place.byte_size < 0 or place.offset + place.byte_size > region.byte_size:
            raise InvalidRequestError(
                f"{what} takes {place.byte_size} bytes from {place.offset} of region '{place.region}', which has "
                f"{region.byte_size}"
            )
        return opened, region.offset + place.offset


def _read(handle: int, start: int, size: int) -> bytes:
    """Reads a part of a file; less where the file is shorter. One call reads 2 GiB at most."""
    content = os.pread(handle, size, start)
    while len(content) < size and (more := os.pread(handle, size - len(content), start + len(content))):
        content += more
    return content


def _gone(place: Slice, what: str) -> str:
    return f"{what}: region '{place.region}' was unregistered meanwhile, or its shared memory object has become shorter"

"""Shared memory without a name: a memory file that ends with the last process that has it open or mapped."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from typing import Self

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SharedMemory:
    """A mapped memory file of a fixed size.

    Pages come into being when they are written first, so it may be far larger than what is used. Its size is sealed:
    a mapped page cannot go away under a reader.

    Args:
        fd: The memory file; it is closed with this object.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.nbytes = os.fstat(fd).st_size
        """Size in bytes."""
        self._map = mmap.mmap(fd, self.nbytes)
        self.view = memoryview(self._map)
        """All bytes, for reading and writing."""

    @classmethod
    def create(cls, nbytes: int, name: str = "mnserve") -> Self:
        """Makes a memory file of zeros.

        Args:
            nbytes: Size in bytes, at least 1.
            name: Name in the list of open files of a process; it opens nothing.
        """
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, nbytes)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            return cls(fd)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def from_fd(cls, fd: int) -> Self:
        """Maps a memory file that another process has made, and takes its descriptor over.

        Raises:
            ValueError: The file may change its size, or is empty.
        """
        try:
            sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS == _SEALS
        except OSError:
            sealed = False
        if not sealed:
            raise ValueError(f"file descriptor {fd} is no sealed memory file; make it by SharedMemory.create")
        return cls(fd)

    def give_back(self, offset: int, nbytes: int) -> None:
        """Returns the whole pages of a range to the operating system; they read as zeros then."""
        first = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (offset + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > first:
            self._map.madvise(mmap.MADV_REMOVE, first, end - first)

    def close(self) -> None:
        """Closes the file, and unmaps it once no array refers to it any more."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        os.close(fd)
        with contextlib.suppress(BufferError):
            self.view.release()
            self._map.close()

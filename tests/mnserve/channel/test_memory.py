"""Shared memory: seen by all who have its descriptor, sealed, sparse, gone with the last of them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from mnserve.channel.memory import SharedMemory


def resident_bytes(memory: SharedMemory) -> int:
    return os.fstat(memory.fd).st_blocks * 512


def test_what_one_side_writes_the_other_reads() -> None:
    writer = SharedMemory.create(10_000)
    reader = SharedMemory.from_fd(os.dup(writer.fd))
    writer.view[4_000:4_003] = b"abc"
    assert reader.nbytes == 10_000
    assert bytes(reader.view[4_000:4_003]) == b"abc"
    writer.close()
    writer.close()
    assert bytes(reader.view[4_000:4_003]) == b"abc"
    reader.close()


def test_its_size_is_sealed_and_other_files_are_refused() -> None:
    memory = SharedMemory.create(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(memory.fd, 0)
    memory.close()
    unsealed = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    pipe = os.pipe()
    for fd in (unsealed, *pipe):
        with pytest.raises(ValueError, match="no sealed memory file"):
            SharedMemory.from_fd(fd)
        os.close(fd)


def test_memory_is_taken_once_written_and_given_back_by_whole_pages() -> None:
    memory = SharedMemory.create(2**34)
    assert resident_bytes(memory) == 0
    memory.view[: 2**20] = b"x" * 2**20
    assert resident_bytes(memory) == 2**20
    memory.give_back(100, 2**20 - 100)
    assert resident_bytes(memory) == 4096
    assert bytes(memory.view[4095:4097]) == b"x\0"
    memory.give_back(10, 20)
    assert bytes(memory.view[:30]) == b"x" * 30
    memory.close()


def test_an_array_keeps_the_memory_mapped_after_it_was_closed() -> None:
    memory = SharedMemory.create(4096)
    array = np.frombuffer(memory.view, np.uint8)
    memory.view[7] = 9
    memory.close()
    assert array[7] == 9

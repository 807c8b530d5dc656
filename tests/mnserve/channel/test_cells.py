"""Counters in shared memory: one writer and many readers, or many writers under locks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from mnserve.channel.locked import LockedCells
from mnserve.channel.pages import CounterPage

WRITER = """
import os, sys
from mnserve.channel.locked import LockedCells
cells = LockedCells.from_fd(int(sys.argv[1]))
for _ in range(2000):
    cells.add(3, 1)
with cells.locked(1):
    print("locked", flush=True)
    sys.stdin.read()  # until it is killed
"""


def test_a_page_is_read_by_those_who_have_its_descriptor() -> None:
    page = CounterPage.create(5)
    reader = CounterPage.from_fd(os.dup(page.fd))
    page.cells[2] += 2**40
    page.cells[4] = -7
    assert list(reader.cells) == [0, 0, 2**40, 0, -7]
    page.close()
    reader.close()


def test_cells_of_several_processes_lose_no_count_and_locks_end_with_their_holder() -> None:
    cells = LockedCells.create(8)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(cells.fd)],
        pass_fds=[cells.fd],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with writer:
        assert writer.stdout is not None
        threads = [threading.Thread(target=lambda: [cells.add(3, 1) for _ in range(1000)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert writer.stdout.readline() == b"locked\n"
        held = threading.Thread(target=cells.add, args=(1, 5))
        held.start()
        held.join(0.05)
        assert held.is_alive()
        writer.kill()
        held.join(5)
        assert not held.is_alive()
        for thread in threads:
            thread.join()
    assert (cells.cells[3], cells.cells[1]) == (4000, 5)
    cells.close()

"""Links between front ends and engine processes, which the supervisor makes and keeps no part of."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

from mnserve.channel.memory import SharedMemory
from mnserve.processes.child import Child

_LEAST_BYTES: Final = 2**28


def link_bytes(max_queue_bytes: int) -> int:
    """Computes the size of each memory of a link: what may wait, twice, since blocks are powers of two.

    Memory is used for pages that were written alone.
    """
    return max(_LEAST_BYTES, 2 * max_queue_bytes)


def connect(front_end: Child, engine: Child, number: int, generation: int, nbytes: int) -> None:
    """Links a front end and an engine process with a pair of sockets and two memories.

    Args:
        front_end: The front end; it writes requests.
        engine: The engine process; it writes answers.
        number: Number of the engine process.
        generation: Its generation.
        nbytes: Size of each memory.

    Raises:
        OSError: This process may have no more open files.
    """
    with contextlib.ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
        memories = []
        for _ in range(2):
            memories.append(_memory_file(nbytes))
            stack.callback(os.close, memories[-1])
        front_end.send("link", (ours.fileno(), *memories), engine=number, generation=generation)
        engine.send("link", (theirs.fileno(), *memories))


def _memory_file(nbytes: int) -> int:
    memory = SharedMemory.create(nbytes)
    try:
        return os.dup(memory.fd)
    finally:
        memory.close()

"""Kills of the processes of a server, in turn, while callers go on."""

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

from soaking.callers import Tally
from soaking.memory import children

KINDS = ("front_end_process", "engine_process")
"""Last word of the module that each kind of process runs."""
GRACE_SECONDS = 10.0
"""Time after a kill in which calls may end as UNAVAILABLE."""


def processes(kind: str) -> list[int]:
    """List the processes of a kind below this one."""
    found = []
    for pid in children(os.getpid()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except FileNotFoundError:  # ended meanwhile
            continue
        if any(word.endswith(f".{kind}") for word in words):
            found.append(pid)
    return found


async def kill_in_turn(tally: Tally, seconds: float, stop: asyncio.Event) -> Counter[str]:
    """Kill a front end, then an engine process, and so on, one in every interval, until ``stop`` is set.

    Returns:
        Number of kills of each kind.
    """
    kills: Counter[str] = Counter()
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            kind = KINDS[kills.total() % len(KINDS)]
            victims = processes(kind)
            if victims:
                tally.forgive(GRACE_SECONDS)
                os.kill(random.choice(victims), signal.SIGKILL)
                kills[kind] += 1
    return kills

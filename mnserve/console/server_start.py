"""Which start of the server answers: charts of its counters begin anew with the next one.

Front ends are processes that run a module of ``mnserve.processes``, and their parent is the server. One that has ended
is started again by the same parent, and the counters go on.
"""

from __future__ import annotations

import os
import secrets
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

_FRONT_ENDS: Final = "mnserve.processes."
_STARTED: Final = 19
"""Place of the start time behind the name in ``/proc/PID/stat``, in ticks since the boot."""


def start_id() -> str:
    """Names the start of this server: the same in all of its processes, and another one after the next start.

    Ask once for each server: where it is one process, each answer is another one.
    """
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module is None or not module.name.startswith(_FRONT_ENDS):
        return secrets.token_hex(8)
    return process_id(os.getppid())


def process_id(pid: int) -> str:
    """Names a process of this machine; another one with the same number has another name."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        started = stat.rpartition(")")[2].split()[_STARTED]
    except (OSError, IndexError):  # no system with such files, or they are hidden
        started = ""
    return sha256(f"{pid} {started}".encode()).hexdigest()[:16]

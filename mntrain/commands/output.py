"""Standard output of the commands: closed pipes, and encodings that lack a letter.

``mnserve`` has its own module, since it may not import this package.
"""

import io
import os
import sys
from collections.abc import Callable


def run_command(run: Callable[[], int]) -> int:
    """Run a command, and flush its output.

    Letters that the terminal's encoding lacks are written as escapes. A closed pipe (``… | head``) gives exit code 1
    without a message.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at exit, and would fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return 1
    return code

"""Entry point of the command ``mnserve``, the same as ``python -m mnserve``."""

from __future__ import annotations

import sys
from typing import Final

from mnserve.commands.early_signals import handle_early

_INTERRUPTED: Final = 130


def main() -> int:
    """Runs the command line of this process; returns the exit code."""
    handle_early(sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        from mnserve.commands.cli import main as run  # takes most of a second, in which signals count
    except KeyboardInterrupt:
        return _INTERRUPTED
    return run()


if __name__ == "__main__":
    sys.exit(main())

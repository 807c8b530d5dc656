"""Entry point of the command ``mnserve``, the same as ``python -m mnserve``."""

from __future__ import annotations

import sys

from mnserve.commands.early_signals import handle_early


def main() -> int:
    """Runs the command line of this process; returns the exit code."""
    handle_early(sys.argv[1] if len(sys.argv) > 1 else "")
    from mnserve.commands.cli import main as run  # takes most of a second, in which signals count

    return run()


if __name__ == "__main__":
    sys.exit(main())

"""Entry point of ``python -m mnserve``, the same as the command ``mnserve``."""

from __future__ import annotations

import sys

from mnserve.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())

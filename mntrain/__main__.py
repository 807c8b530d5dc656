"""``python -m mntrain`` is the command ``mntrain``."""

import sys

from mntrain.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""``python -m mnexport`` is the command ``mnexport``."""

import sys

from mnexport.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Record how this version trains and exports on this machine, beside the recordings of other machines.

``python tests/recorded/record.py`` adds a recording; ``--overwrite`` replaces the one that this machine has. Do so only
where losses, weights or exported files are meant to change, and say why in the commit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fingerprint import fingerprint, key_of
from measuring import EXPORTS, TRAININGS, export, one_thread, train
from recordings import FILE, read_recordings, write_recordings


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--overwrite", action="store_true", help="replace the recording of this machine")
    arguments = parser.parse_args(words)
    recordings, here = read_recordings(), fingerprint()
    key = key_of(here)
    if key in recordings and not arguments.overwrite:
        print(f"{FILE} has a recording of this machine ({key}); add --overwrite to replace it.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, one_thread():
        recordings[key] = {
            "fingerprint": here,
            "trainings": {name: train(name, Path(folder) / "trained") for name in TRAININGS},
            "exports": {name: export(name, Path(folder) / "repository") for name in EXPORTS},
        }
    write_recordings(recordings)
    print(f"recorded {key} in {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

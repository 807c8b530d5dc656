"""Run libFuzzer in this process, which it ends: python -m fuzzing.worker FOLDER WORDS-OF-LIBFUZZER.

FOLDER gets ``tally.json``, the outcomes of the requests so far.
"""

import json
import sys
from pathlib import Path
from typing import Final

import atheris

_MODULES: Final = [
    f"mnserve.{name}"
    for name in ("codec", "encoding", "tensors", "shared_memory", "shared_tensors", "urgency", "wire", "response_cache")
]
"""Tested modules, whose branches libFuzzer counts."""
_TALLY_EVERY: Final = 512


def main() -> None:
    """Run libFuzzer; never returns."""
    folder, words = Path(sys.argv[1]), [sys.argv[0], *sys.argv[2:]]
    with atheris.instrument_imports(include=_MODULES, enable_loader_override=False):
        from fuzzing.dice import ProviderDice
        from fuzzing.target import Target
    target, runs = Target(folder / "shared"), 0

    def one(data: bytes) -> None:
        nonlocal runs
        if data and data[0] % 2:
            target.structured(ProviderDice(atheris.FuzzedDataProvider(data[1:])))
        else:
            target.raw(data[1:])
        runs += 1
        if runs % _TALLY_EVERY == 0:  # libFuzzer ends the process without a word
            (folder / "tally.json").write_text(json.dumps(target.outcomes))

    atheris.Setup(words, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Run libFuzzer in this process, which it ends: python -m fuzzing.worker FORM FOLDER WORDS-OF-LIBFUZZER.

FOLDER gets ``tally.json``, the outcomes of the requests so far.
"""

import json
import sys
from pathlib import Path
from typing import Final

import atheris

_MODULES: Final = {
    "grpc": ["mnserve.codec", "mnserve.batching.request_limits", "mnserve.rpc.wire", "mnserve.models.response_cache"],
    "http": ["mnserve.codec", "mnserve.http.payloads"],
}
"""Tested modules, whose branches libFuzzer counts."""
_TALLY_EVERY: Final = 512


def main() -> None:
    """Run libFuzzer; never returns."""
    form, folder, words = sys.argv[1], Path(sys.argv[2]), [sys.argv[0], *sys.argv[3:]]
    with atheris.instrument_imports(include=_MODULES[form], enable_loader_override=False):
        from fuzzing.dice import ProviderDice
        from fuzzing.http_target import HttpTarget
        from fuzzing.target import Target
    target, runs = Target(folder / "shared") if form == "grpc" else HttpTarget(), 0

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

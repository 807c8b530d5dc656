"""Inputs to begin with: good requests as they come over the wire, and choices that make some."""

from pathlib import Path
from typing import Final

from fuzzing.dice import RandomDice
from fuzzing.signatures import SIGNATURES
from fuzzing.structured import nearly_valid, valid

__all__ = ["CHOICES", "MESSAGE", "write_seeds"]

MESSAGE: Final = b"\0"
"""First byte of an input whose others are a message; any even one is."""
CHOICES: Final = b"\1"
"""First byte of an input whose others are choices; any odd one is."""
_EACH: Final = 4


def write_seeds(folder: Path) -> int:
    """Writes a file for each input.

    Returns:
        Their number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inputs = []
    for signature in SIGNATURES:
        for seed in range(_EACH):
            inputs.append(MESSAGE + valid(signature, RandomDice(seed)).SerializeToString())
            inputs.append(MESSAGE + nearly_valid(signature, RandomDice(seed)).SerializeToString())
            inputs.append(CHOICES + RandomDice(seed).data(512))
    for number, content in enumerate(inputs):
        (folder / f"seed-{number:03}").write_bytes(content)
    return len(inputs)

"""First inputs of the fuzzer: encoded good requests, and choices that make some."""

from pathlib import Path
from typing import Final

from fuzzing.dice import RandomDice
from fuzzing.signatures import SIGNATURES
from fuzzing.structured import nearly_valid, valid

MESSAGE: Final = b"\0"
"""First byte of an input that holds a message; any even byte stands for one."""
CHOICES: Final = b"\1"
"""First byte of an input that holds choices; any odd byte stands for them."""
_EACH: Final = 4


def write_seeds(folder: Path) -> int:
    """Write a file for each input.

    Returns:
        Number of the files.
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

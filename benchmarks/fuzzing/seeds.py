"""First inputs of the fuzzer: encoded good requests, and choices that make some."""

from pathlib import Path
from typing import Final

from fuzzing.dice import RandomDice
from fuzzing.http_bodies import body_of
from fuzzing.signatures import SIGNATURES
from fuzzing.structured import nearly_valid, valid

MESSAGE: Final = b"\0"
"""First byte of an input that holds a message; any even byte stands for one."""
CHOICES: Final = b"\1"
"""First byte of an input that holds choices; any odd byte stands for them."""
_EACH: Final = 4
_FORM: Final = (
    b'--B\r\nContent-Disposition: form-data; name="request"\r\n\r\n{}\r\n'
    b'--B\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\nabc\r\n--B--\r\n'
)


def write_seeds(folder: Path, form: str = "grpc") -> int:
    """Write a file for each input.

    Args:
        folder: folder of the files.
        form: ``grpc`` for messages, ``http`` for bodies of HTTP.

    Returns:
        Number of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inputs = []
    for number, signature in enumerate(SIGNATURES):
        for seed in range(_EACH):
            for request in (valid(signature, RandomDice(seed)), nearly_valid(signature, RandomDice(seed))):
                if form == "grpc":
                    inputs.append(MESSAGE + request.SerializeToString())
                else:
                    body, length = body_of(request, RandomDice(seed))
                    inputs.append(MESSAGE + bytes((number, *(length or 0).to_bytes(2, "little"))) + body)
            inputs.append(CHOICES + RandomDice(seed).data(512))
    if form == "http":
        inputs.append(MESSAGE + b"\xff\0\0" + _FORM)
    for number, content in enumerate(inputs):
        (folder / f"seed-{number:03}").write_bytes(content)
    return len(inputs)

"""Text files from outside: UTF-8, and no larger than anybody would write them."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 4 * 1024 * 1024
"""Largest text file: a configuration, an export.json, or names of classes."""


def read_text(path: Path) -> str:
    """Reads a text file in UTF-8, without its byte order mark; line ends stay as they are.

    Raises:
        OSError: The file cannot be opened or read.
        ValueError: The file is too large, or in another encoding; the message is a clause with the remedy.
    """
    if path.exists() and not path.is_file():  # opening a pipe would block until a writer opens it
        raise ValueError("it is no regular file; put a text file there")
    with path.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes, and no more are read; is it the right file?")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("it is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start + 1}; save it as UTF-8") from None

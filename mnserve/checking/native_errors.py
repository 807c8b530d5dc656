"""Errors that ONNX Runtime writes to standard error by itself, where its exception does not tell the cause."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_ERROR: Final = re.compile(r"\[[EF]:onnxruntime:[^\]]*\] (?:.*\[ONNXRuntimeError\] : \d+ : \w+ : )?(.*)")


@contextmanager
def native_errors() -> Iterator[list[str]]:
    """Keeps standard error of the process off the terminal, and lists ONNX Runtime's errors in it afterwards."""
    texts: list[str] = []
    sys.stderr.flush()
    terminal = os.dup(2)
    with open(os.memfd_create("errors"), "w+", encoding="utf-8", errors="replace") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield texts
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            stream.seek(0)
            found = (_ERROR.search(_COLOURS.sub("", line)) for line in stream)
            texts += dict.fromkeys(match[1].strip() for match in found if match)

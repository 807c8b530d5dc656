"""Run by the interpreter of an empty environment: serves a tiny model by the installed command, and asks it.

    python trial.py REPOSITORY

Imports nothing but Python's own library and the installed packages; the last line it prints is JSON.
"""

import importlib.metadata
import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mnserve import Client


def main() -> int:
    """Serve, predict, stop; returns the exit code of the server."""
    command = [str(Path(sys.executable).parent / "mnserve"), "serve", sys.argv[1]]
    ports = ["--grpc-port", "0", "--metrics-port", "0"]
    server = subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        words = server.stdout.readline().replace(",", " ").split()
        url = next(word for word in words if word.startswith("grpc://"))
        rows: np.ndarray[Any, Any] = np.arange(16, dtype=np.float32).reshape(2, 8)
        with Client(url) as client:
            answer = client.infer("twice", {"x": rows})["y"]
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    spec = importlib.util.find_spec("mnserve")
    found = {
        "right": bool((answer == 2 * rows).all()),
        "exit_code": code,
        "python": ".".join(map(str, sys.version_info[:3])),
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "license": importlib.metadata.metadata("mn-runtime")["License-Expression"],
        "packages": len(list(importlib.metadata.distributions())),
        "torch": importlib.util.find_spec("torch") is not None,
        "installed": spec is not None and Path(str(spec.origin)).is_relative_to(sys.prefix),
    }
    print(json.dumps(found))
    return code


if __name__ == "__main__":
    raise SystemExit(main())

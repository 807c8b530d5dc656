"""Runs commands in a network namespace of its own: which names each asks for, and which files it writes at home.

``unshare --net --mount --map-root-user python observed_commands.py``. Standard input has a JSON list of lists of words,
standard output one JSON object for each. A command that serves is stopped once it says so.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

_SIOCSIFFLAGS: Final = 0x8914
_UP: Final = 1
_MS_BIND: Final = 4096
_PLACES: Final = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR")
# Any of them would keep ONNX Runtime from reporting, whatever our own code does.
_SILENCERS: Final = ("CI", "ORT_RUNNING_UNIT_TESTS", "ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY")


def main() -> None:
    asked: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        _listen_for_names(Path(folder), asked)
        for words in json.load(sys.stdin):
            with tempfile.TemporaryDirectory(dir=folder) as places:
                asked.clear()
                code, output = _run(words, Path(places))
                files = [str(file.relative_to(places)) for file in Path(places).rglob("*") if not file.is_dir()]
            print(json.dumps({"code": code, "output": output, "names": sorted(set(asked)), "files": sorted(files)}))


def _run(words: list[str], places: Path) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _SILENCERS}
    while words and "=" in words[0]:  # variables before the command, as in a shell
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    for name in _PLACES:
        (places / name).mkdir()
        environment[name] = str(places / name)
    process = subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("serving "):
            process.send_signal(signal.SIGINT)
    return process.wait(), "".join(lines)


def _listen_for_names(folder: Path, asked: list[str]) -> None:
    """Answers every question for a name with "there is none", and keeps the name."""
    resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Flags of the loopback interface, which is down in a new namespace.
    fcntl.ioctl(resolver, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _UP))
    resolver.bind(("127.0.0.1", 53))
    servers = folder / "resolv.conf"
    servers.write_text("nameserver 127.0.0.1\n")
    if ctypes.CDLL(None).mount(bytes(servers), b"/etc/resolv.conf", None, _MS_BIND, None):
        sys.exit("/etc/resolv.conf cannot be replaced")

    def answer() -> None:
        while True:
            message, caller = resolver.recvfrom(4096)
            labels, place = [], 12
            while message[place]:
                labels.append(message[place + 1 : place + 1 + message[place]].decode())
                place += 1 + message[place]
            asked.append(".".join(labels))
            flags_and_counts = b"\x81\x83" + message[4:6] + bytes(6)
            resolver.sendto(message[:2] + flags_and_counts + message[12 : place + 5], caller)

    threading.Thread(target=answer, daemon=True).start()


if __name__ == "__main__":
    main()

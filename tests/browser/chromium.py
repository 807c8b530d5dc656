"""Headless Chromium over its debugging pipe: messages of the DevTools protocol, each ended by a zero byte."""

import fcntl
import json
import os
import select
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_SECONDS = 60.0
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


class Chromium:
    """One page of a browser that ends with the block.

    Args:
        executable: of Chromium.
        profile: an empty folder.
    """

    def __init__(self, executable: str, profile: Path) -> None:
        (their_in, self._out), (self._in, their_out) = self._pipe(), self._pipe()
        words = [executable, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        quiet = os.open(os.devnull, os.O_RDWR)
        moves = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in ((their_in, 3), (their_out, 4))]
        moves += [(os.POSIX_SPAWN_DUP2, quiet, 2)]
        self._pid = os.posix_spawnp(executable, words, dict(os.environ), file_actions=moves, setpgroup=0)
        for handle in (their_in, their_out, quiet):
            os.close(handle)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None

    @staticmethod
    def _pipe() -> tuple[int, int]:
        """Two ends above the numbers that the browser wants for itself."""
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
        for end in ends:
            os.close(end)
        return high[0], high[1]

    def __enter__(self) -> "Chromium":
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and wait for its answer; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def open(self, url: str, *, width: int, height: int = 900) -> None:
        """Load a page in a window of ``width`` CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            assert left > 0, "Chromium does not answer"
            if select.select([self._in], [], [], left)[0]:
                more = os.read(self._in, 1 << 20)
                assert more, "Chromium has ended"
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

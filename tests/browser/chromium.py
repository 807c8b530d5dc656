"""Headless Chromium over its debugging pipe: messages of the DevTools protocol, each ended by a zero byte."""

import base64
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
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " ")}
"""Key -> its number, and its text."""
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


class Chromium:
    """One page of a browser that ends with the block.

    Args:
        executable: of Chromium.
        profile: an empty folder.
        flags: further options.
    """

    def __init__(self, executable: str, profile: Path, flags: tuple[str, ...] = ()) -> None:
        (their_in, self._out), (self._in, their_out) = self._pipe(), self._pipe()
        words = [executable, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", *flags, "about:blank"]
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

    def wait_for(self, expression: str) -> Any:
        """The value of a JavaScript expression once it is true."""
        deadline = time.monotonic() + _SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"{expression} has not become true"
            time.sleep(0.05)
        return value

    def click(self, selector: str) -> None:
        """Click with the mouse on the middle of an element that is seen, and reachable there."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{element} !== null && {element}.getClientRects().length > 0")
        x, y, reached = self.evaluate(f"""(() => {{
          const element = {element};
          element.scrollIntoView({{block: "center", behavior: "instant"}});
          const {{left, top, width, height}} = element.getBoundingClientRect();
          const [x, y] = [left + width / 2, top + height / 2];
          const hit = document.elementFromPoint(x, y);
          return [x, y, element.contains(hit) || hit?.contains(element)];
        }})()""")
        assert reached, f"{selector} is covered"
        self.drag([(x, y)])

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press the mouse at the first point, and let it go at the last."""
        (x, y), *others = points
        button: dict[str, Any] = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **button)
        for x, y in others:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **button)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, **button)

    def press(self, key: str) -> None:
        """Press a key such as Tab, Enter, Escape or a space."""
        code, text = _KEYS[key]
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Write text where the focus is."""
        self.call("Input.insertText", text=text)

    def choose_files(self, selector: str, files: list[Path]) -> None:
        """Choose files in an input of the page."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def drop_files(self, selector: str, files: list[Path]) -> None:
        """Drop files of this machine on an element."""
        x, y = self.evaluate(f"""(() => {{
          const {{left, top, width, height}} = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
          return [left + width / 2, top + height / 2];
        }})()""")
        data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def screenshot(self) -> bytes:
        """PNG of what is seen."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

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

"""The console in a browser, and everything that it must not do while a test clicks through it."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from chromium import Chromium

_COMPLAINTS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


class ConsolePage:
    """The page of one server; at the end of the block nothing may have gone wrong in it.

    Args:
        browser: of the tests.
        url: of the server, ``http://HOST:PORT``.
        view: traffic, models or try.
        refusals: Statuses of answers that the test causes; a browser notes each in its console.
        width: of the window, in CSS pixels.
    """

    def __init__(
        self, browser: Chromium, url: str, view: str = "traffic", *, refusals: tuple[int, ...] = (), width: int = 1280
    ) -> None:
        self.browser, self._width = browser, width
        self._url, self._view, self._refusals = f"{url}/console/", view, refusals

    def __enter__(self) -> ConsolePage:
        self.browser.call("Emulation.setEmulatedMedia", features=[])
        self.browser.open("about:blank", width=1280)
        self.browser.open(f"{self._url}#{self._view}", width=self._width)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.browser.evaluate("document.title")  # takes in the events so far
            assert self.complaints() == []
            assert [url for url in self.requests() if not url.startswith((self._url, "data:", "blob:"))] == []
        self.browser.open("about:blank", width=1280)

    def complaints(self) -> list[Any]:
        """What the browser's console says, beside refused calls."""
        said = [event for event in self.browser.events if event.get("method") in _COMPLAINTS]
        return [event["params"] for event in said if not self._is_refusal(event["params"])]

    def requests(self) -> list[str]:
        """Addresses of everything that was asked for."""
        sent = [event for event in self.browser.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _is_refusal(self, said: dict[str, Any]) -> bool:
        entry = said.get("entry", {})
        return entry.get("source") == "network" and any(
            f"status of {status} " in entry["text"] for status in self._refusals
        )

    def wait_until_known(self) -> None:
        """Until the page knows the state of the server."""
        self.browser.wait_for("document.getElementById('release').textContent !== ''")

    def choose(self, select: str, text: str) -> None:
        """Choose an option by its text, as a person does by keyboard or mouse."""
        option = (
            f"[...document.querySelectorAll('{select} option')].find(one => one.textContent === {json.dumps(text)})"
        )
        self.browser.wait_for(f"{option} !== undefined")
        self.browser.evaluate(f"""(() => {{
          const select = document.querySelector('{select}');
          select.value = {option}.value;
          select.dispatchEvent(new Event('change', {{bubbles: true}}));
        }})()""")

    def text(self, selector: str) -> str:
        """Text of an element."""
        return str(self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        """Text of each element that is found."""
        found = self.browser.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.innerText.trim())"
        )
        return list(found)

    def open_table(self, card: str) -> None:
        """Open the table beside a chart, and wait for its rows; what is above may grow while the mouse moves."""
        opened = f"document.querySelector({json.dumps(f'{card} details')})?.open"
        while not self.browser.evaluate(opened):
            self.browser.click(f"{card} summary")
        self.browser.wait_for(f"document.querySelector({json.dumps(f'{card} tbody tr')}) !== null")

    def predict(self) -> None:
        """Click on Predict, and wait for the answers."""
        self.browser.click("#trial-form .primary")
        self.browser.wait_for("document.getElementById('trial-results').getAttribute('aria-busy') === 'false'")

"""The console of a server that goes away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chromium import Chromium
from console_page import ConsolePage


def test_the_page_says_that_the_server_is_gone(
    models: Path, start_console: Callable[..., Any], browser: Chromium
) -> None:
    server = start_console(models, "--model-control", "explicit", "--load-model", "double")
    page = ConsolePage(browser, server.http, "models")
    with page:
        page.wait_until_known()
    page.__enter__()
    page.wait_until_known()
    server.close()
    browser.wait_for("document.getElementById('state').innerText === 'No answer'")
    assert page.text("#connection") == "The server does not answer. It may be stopped, or the network is down."
    thrown = [event for event in browser.events if event.get("method") == "Runtime.exceptionThrown"]
    assert thrown == []

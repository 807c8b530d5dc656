"""axe-core over every view of the console, in both color schemes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from console_page import ConsolePage

GRAVE = ("serious", "critical")


@pytest.fixture(scope="session")
def axe() -> str:
    """The script; the package around it is not imported, since it wants Playwright."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core is not installed (pip install --no-deps axe-playwright-python)")
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def grave_faults(browser: Chromium, axe: str) -> dict[str, list[str]]:
    """Rule -> elements that break it; only serious and critical ones."""
    browser.call("Runtime.evaluate", expression=axe)
    found = json.loads(
        browser.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
        )
    )
    return {fault["id"]: [node["html"][:200] for node in fault["nodes"]] for fault in found if fault["impact"] in GRAVE}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_grave(server: Any, browser: Chromium, axe: str, digits: list[Path], scheme: str) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.choose("#trial-model", "digits-mn")
        page.choose("#trial-other", "digits-plain")
        browser.choose_files("#image-files", digits)
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 4")
        browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        faults = {"try": grave_faults(browser, axe)}
        browser.click("#trial-latency")
        browser.wait_for("document.getElementById('trial-results').innerText.includes('times as long')")
        faults["latency"] = grave_faults(browser, axe)
        for model in ("rows", "double"):
            page.choose("#trial-model", model)
            page.predict()
            browser.wait_for("document.querySelector('#trial-results table.rows, #trial-results pre') !== null")
            faults[model] = grave_faults(browser, axe)
        for view in ("traffic", "models"):
            browser.click(f"nav a[href='#{view}']")
            browser.wait_for(f"!document.getElementById('view-{view}').hidden")
            browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            faults[view] = grave_faults(browser, axe)
        browser.click("[data-action=Unload]")
        faults["question"] = grave_faults(browser, axe)
        browser.press("Escape")
        browser.click("#token-button")
        faults["token"] = grave_faults(browser, axe)
        assert faults == {view: {} for view in faults}
        browser.evaluate("delete window.axe")


def test_axe_would_find_something(server: Any, browser: Chromium, axe: str) -> None:
    with ConsolePage(browser, server.http, "models") as page:
        page.wait_until_known()
        browser.evaluate("document.querySelector('.skip').after(document.createElement('button'))")
        assert "button-name" in grave_faults(browser, axe)

"""The page on small and large screens: nothing passes its card, or the window."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from console_page import ConsolePage

OUTSIDE = """(() => {
  const scrolls = (one) => ["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX);
  const outside = [];
  for (const frame of document.querySelectorAll("main, .card, .bar, .zone, #trial-form")) {
    if (frame.getClientRects().length === 0) continue;
    const {left, right} = frame.getBoundingClientRect();
    for (const one of frame.querySelectorAll("*")) {
      const box = one.getBoundingClientRect();
      if (box.width === 0 || one.closest(".unseen, canvas, svg")) continue;
      let holder = one.parentElement;
      while (holder !== frame && !scrolls(holder)) holder = holder.parentElement;
      if (holder !== frame || scrolls(frame)) continue;
      if (box.right > right + 1 || box.left < left - 1) {
        outside.push([frame.id || frame.className, one.tagName, one.id || one.className, box.right - right].join(" "));
      }
    }
  }
  return outside;
})()"""
BROKEN = """[...document.querySelectorAll(".brand bdi, #release, nav a, .chip, button")].filter((one) => {
  const lines = one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).fontSize);
  return one.getClientRects().length > 0 && lines > 3.5;
}).map((one) => one.innerText)"""


@pytest.fixture(scope="module")
def server(further_models: Path, start_console: Callable[..., Any]) -> Any:
    """Serves models, one with a long name, under a long name."""
    name = "a-server-with-a-name-that-is-rather-long"
    return start_console(further_models, "--model-control", "explicit", "--load-model", "*", "--server-name", name)


@pytest.mark.parametrize("width", [320, 375, 1280])
def test_the_page_fits(server: Any, browser: Chromium, digits: list[Path], long_name: str, width: int) -> None:
    with ConsolePage(browser, server.http, "try", width=width) as page:
        page.choose("#trial-model", "digits-mn")
        page.choose("#trial-other", "digits-plain")
        faults = {}

        def look(what: str) -> None:
            faults[what] = (
                browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"),
                browser.evaluate(OUTSIDE),
                browser.evaluate(BROKEN),
            )

        browser.choose_files("#image-files", digits)
        browser.wait_for("document.querySelectorAll('.files li').length === 2")
        look("images")
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 4")
        look("answers")
        for model in ("rows", long_name):
            page.choose("#trial-model", model)
            page.predict()
            browser.wait_for("document.querySelector('#trial-results table.rows, #trial-results pre') !== null")
            look(f"try {model[:6]}")
        for view in ("models", "traffic"):
            browser.evaluate(f"location.hash = '#{view}'")
            browser.wait_for(f"!document.getElementById('view-{view}').hidden")
            browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            look(view)
        page.choose("#traffic-model", f"{long_name}, version 1")
        look("traffic of one model")
        assert faults == dict.fromkeys(faults, (0, [], []))


def test_a_long_name_leaves_room_for_the_rest(server: Any, browser: Chromium, long_name: str) -> None:
    with ConsolePage(browser, server.http, "models") as page:
        page.wait_until_known()
        row = f"tr[data-model={json.dumps(long_name)}]"
        browser.wait_for(f"document.querySelector({json.dumps(row)}) !== null")
        seen = browser.evaluate("document.getElementById('models-table').getBoundingClientRect().right")
        for part in (".chip", "[data-figure=p99]", "summary", "[data-action=Unload]"):
            cell = f"document.querySelector({json.dumps(f'{row} {part}')})"
            right = browser.evaluate(f"{cell}.getBoundingClientRect().right")
            assert right <= seen, part
        reason = browser.evaluate("document.querySelector('.reason').getBoundingClientRect().width")
        assert reason > 200


def test_words_of_the_head_stay_whole(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try", width=320) as page:
        page.wait_until_known()
        for part in (".brand bdi", "#release"):
            assert browser.evaluate(f"document.querySelector('{part}').getClientRects().length") == 1, part
            height = browser.evaluate(f"document.querySelector('{part}').getBoundingClientRect().height")
            assert height < 30, part
            assert browser.evaluate(f"document.querySelector('{part}').getBoundingClientRect().width") > 25, part

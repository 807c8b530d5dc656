"""The page in a browser: all of it is visible, nothing is fetched, nothing is wider than a phone."""

import json
import re
import shutil
from pathlib import Path

import pytest
from chromium import Chromium

from mntrain.analysis.page import render
from mntrain.analysis.report import report
from mntrain.analysis.report_input import ReportOptions
from mntrain.analysis.sections.content import Section

MEASURE = """
(() => {
  const boxes = [...document.querySelectorAll('figure svg, img')].map(one => {
    const box = one.getBoundingClientRect();
    return {
      kind: one.tagName.toLowerCase(), width: box.width, height: box.height, right: box.right,
      complete: one.tagName !== 'IMG' || (one.complete && one.naturalWidth > 0),
      said: one.tagName === 'IMG' ? one.alt : one.closest('[role=img]').getAttribute('aria-label'),
    };
  });
  return {boxes, width: document.documentElement.scrollWidth, inner: window.innerWidth,
          scripts: document.scripts.length};
})()
"""


@pytest.fixture(scope="module")
def sweep_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a sweep as `mntrain compare --sweep` does, as far as a report reads it."""
    file = tmp_path_factory.mktemp("sweep") / "compare.json"
    runs = [{"score": 0.9}, {"score": 0.92}]
    content = {
        "recipe": "digits",
        "metric": "accuracy",
        "variants": [{"variant": name, "runs": runs} for name in ("entries-10", "entries-50")],
        "sweeps": [
            {"field": "meta_neighborhoods.entries", "values": ["10", "50"], "variants": ["entries-10", "entries-50"]}
        ],
    }
    file.write_text(json.dumps(content))
    return file


@pytest.fixture(scope="module")
def page(runs: Path, sweep_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of the small Meta-Neighborhoods run."""
    file = tmp_path_factory.mktemp("report") / "page.html"
    options = ReportOptions(
        run=runs / "meta_neighborhoods", images=150, comparisons=(sweep_file,), output=file, quiet=True
    )
    numbers = report(options)
    assert list(numbers) == [
        "run", "curves", "adaptation", "acting", "prototypes", "embedding", "neighbors", "retrieval", "usage",
        "ablations", "learned",
    ]  # fmt: skip
    json.dumps(numbers, allow_nan=False)
    return file


@pytest.mark.parametrize("width", [375, 1280])
def test_every_figure_is_visible(page: Path, browser: Chromium, width: int) -> None:
    browser.open(page.as_uri(), width=width)
    found = browser.evaluate(MEASURE)
    small = [box for box in found["boxes"] if box["width"] <= 50 or box["height"] <= 50 or not box["complete"]]
    assert small == []
    assert sum(box["kind"] == "svg" for box in found["boxes"]) == 12
    assert sum(box["kind"] == "img" for box in found["boxes"]) > 50
    assert all(box["said"] for box in found["boxes"])
    assert found["width"] <= width
    assert max(box["right"] for box in found["boxes"]) <= width
    assert found["scripts"] == 0


def test_the_page_loads_without_requests_or_errors(page: Path, browser: Chromium) -> None:
    browser.open(page.as_uri(), width=1280)
    browser.evaluate(MEASURE)
    complaints = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    assert [event for event in browser.events if event.get("method") in complaints] == []
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]


def test_the_page_follows_a_dark_scheme(page: Path, browser: Chromium) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(page.as_uri(), width=1280)
        shades[scheme] = browser.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert shades["light"] != shades["dark"]


def test_the_same_run_gives_the_same_figures(page: Path, runs: Path, sweep_file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.html"
    options = ReportOptions(
        run=runs / "meta_neighborhoods", images=150, comparisons=(sweep_file,), output=again, quiet=True
    )
    report(options)
    assert again.read_text() == page.read_text()


def test_hostile_names_stay_text() -> None:
    hostile = "<script>alert(1)</script>\"'&\u202e\x9b"
    html = render(
        [Section(anchor="a", title=hostile, text=(hostile,), facts=((hostile, hostile),), folded=(hostile, hostile))],
        title=hostile,
        subtitle=hostile,
        footer=hostile,
    )
    assert "<script" not in html
    assert len(re.findall("&lt;script&gt;", html)) == 11
    assert "\u202e" not in html
    assert "\x9b" not in html


def test_class_names_are_shown_as_they_are(runs: Path, browser: Chromium, tmp_path: Path) -> None:
    """In tables, figures and the alternative texts of images."""
    run = tmp_path / "run"
    shutil.copytree(runs / "meta_neighborhoods", run)
    names = [
        "</svg><script>document.title='x'</script>",
        "$x_1$ costs $5",
        '" onload="alert(1)',
        "猫",
        "a\tb\n",
        "&amp;",
    ]
    names += [f"class {number}" for number in range(6, 10)]
    file = run / "artifact" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"labels": names}))
    report(ReportOptions(run=run, images=40, quiet=True))
    browser.open((run / "report.html").as_uri(), width=375)
    found = browser.evaluate(MEASURE)
    assert found["scripts"] == 0
    assert found["width"] <= 375
    assert browser.evaluate("document.title") == "meta_neighborhoods"
    shown = browser.evaluate("[...document.querySelectorAll('#adaptation td:first-child')].map(one => one.textContent)")
    assert set(shown) <= set(names)
    assert "$x_1$ costs $5" in browser.evaluate("document.querySelector('#adaptation svg').textContent")

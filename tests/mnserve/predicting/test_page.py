"""The page of explanations in a real browser: all is seen, nothing is fetched or run, whatever things are called."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Chromium
from PIL import Image

from mnserve.commands.predict import run
from mnserve.predicting.pictures import data_uri
from mnserve.predicting.settings import PredictSettings

HOSTILE = "<script>document.title='x'</script>\"' onerror=alert(1) &amp;"
LABELS = (HOSTILE, "</style></svg>grün\u202e", "a\tb\n")
ExplainedModel = Callable[..., Path]


@pytest.fixture
def page(explained_model: ExplainedModel, training: dict[str, Any], colours: Path, tmp_path: Path) -> Path:
    """Three images, two of which adaptation has changed, one with a file name like markup."""
    (colours / "1-green.png").rename(colours / "1 <script>alert(1)<img src=x onerror=alert(2)>\n\"'&.png")
    file = tmp_path / "page.html"
    model = explained_model(arrays=training, labels=LABELS)
    assert run(PredictSettings(model=str(model), files=[str(colours)], explain=True, html=str(file))) == 0
    return file


def test_each_image_is_shown_with_its_answer_and_neighbors(page: Path, browser: Chromium) -> None:
    browser.open(page.as_uri(), width=1280)
    found = browser.evaluate("""[...document.querySelectorAll('article')].map(one => ({
      file: one.querySelector('h2').textContent,
      answers: [...one.querySelectorAll('dd bdi')].map(label => label.textContent),
      numbers: [...one.querySelectorAll('dd')].map(answer => answer.lastChild.textContent.trim()),
      changed: one.querySelector('.changed') !== null,
      neighbors: [...one.querySelectorAll('li')].map(item => ({
        label: item.querySelector('b').textContent, text: item.querySelector('p').textContent,
        bar: item.querySelector('.share').getBoundingClientRect().width /
             item.querySelector('.whole').getBoundingClientRect().width,
        images: [...item.querySelectorAll('figcaption')].map(caption => caption.textContent),
      })),
    }))""")
    assert [one["file"].rsplit("/", 1)[1] for one in found] == [
        "0-red.png", "1 <script>alert(1)<img src=x onerror=alert(2)>\\n\"'&.png", "2-blue.png",
    ]  # fmt: skip
    shown = (LABELS[0], "</style></svg>grün\\u202e", "a\\tb\\n")
    assert [one["answers"] for one in found] == [[label, shown[0]] for label in shown]
    assert [one["numbers"] for one in found] == [["86.5%", "33.3%"]] * 3
    assert [one["changed"] for one in found] == [False, True, True]
    for entry, one in enumerate(found):
        first, second = one["neighbors"]
        assert first["label"] == shown[[0, 2, 1][entry]]
        assert first["text"].endswith(f" · 86.5% · entry {entry}")
        assert first["bar"] == pytest.approx(1)
        assert second["bar"] == pytest.approx(0.0675 / 0.865, abs=0.005)
    assert found[2]["neighbors"][0]["images"] == [f"{shown[2]} at 500", f"{shown[0]} at 6000"]


@pytest.mark.parametrize("width", [375, 1280])
def test_every_picture_is_visible(page: Path, browser: Chromium, width: int) -> None:
    browser.open(page.as_uri(), width=width)
    found = browser.evaluate("""({
      images: [...document.images].map(one => [one.complete && one.naturalWidth, one.naturalHeight, one.alt,
        one.getBoundingClientRect().width, one.getBoundingClientRect().right]),
      width: document.documentElement.scrollWidth, scripts: document.scripts.length, title: document.title,
    })""")
    assert len(found["images"]) == 3 + 3 * 2 * 2
    for natural_width, natural_height, said, shown, right in found["images"]:
        assert (natural_width, natural_height) == (6, 4)
        assert said
        assert shown > 50
        assert right <= width
    assert found["width"] <= width
    assert found["scripts"] == 0
    assert found["title"] == "m: 3 images explained"


def test_the_page_loads_without_requests_or_errors(page: Path, browser: Chromium) -> None:
    browser.open(page.as_uri(), width=1280)
    browser.evaluate("document.images.length")
    complaints = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    assert [event for event in browser.events if event.get("method") in complaints] == []
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]


def test_the_policy_of_the_page_blocks_injected_scripts(page: Path, browser: Chromium) -> None:
    """Even one that came in: the style is let in by its digest, and nothing else is."""
    broken_into = page.with_name("broken.html")
    text = page.read_text().replace(
        "<main>", "<main><script>document.title = 'run'</script><p style='color: red'>x</p>"
    )
    broken_into.write_text(text)
    browser.open(broken_into.as_uri(), width=1280)
    assert browser.evaluate("document.title") == "m: 3 images explained"
    assert browser.evaluate("getComputedStyle(document.querySelector('main > p')).color") != "rgb(255, 0, 0)"
    assert browser.evaluate("getComputedStyle(document.querySelector('article')).borderRadius") == "12px"


def test_the_page_follows_a_dark_scheme(page: Path, browser: Chromium) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(page.as_uri(), width=1280)
        shades[scheme] = browser.evaluate(
            "['color', 'backgroundColor', 'colorScheme'].map(name => getComputedStyle(document.body)[name])"
        )
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert shades["light"][0] != shades["dark"][0]
    assert shades["light"][1] != shades["dark"][1]
    assert shades["dark"][2] == "light dark"


def test_markup_in_names_stays_text(page: Path) -> None:
    text = page.read_text()
    assert "<script" not in text
    assert "onerror=alert" in text, "as text"
    assert not re.search(r"<[^>]*\sonerror=", re.sub(r'"[^"]*"', '""', text))
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []


def test_the_same_predictions_give_the_same_page(
    page: Path, explained_model: ExplainedModel, colours: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.html"
    model = tmp_path / "repository" / "m"
    assert run(PredictSettings(model=str(model), files=[str(colours)], explain=True, html=str(again))) == 0
    assert again.read_text() == page.read_text()


def test_without_training_images_there_is_still_a_page(
    explained_model: ExplainedModel, colours: Path, tmp_path: Path, browser: Chromium
) -> None:
    page = tmp_path / "page.html"
    options = {"explain": True, "html": str(page)}
    assert run(PredictSettings(model=str(explained_model()), files=[str(colours / "0-red.png")], **options)) == 0
    browser.open(page.as_uri(), width=1280)
    assert browser.evaluate("document.images.length") == 1
    assert browser.evaluate("document.querySelectorAll('li').length") == 2
    assert "training images" not in browser.evaluate("document.body.textContent")
    assert browser.evaluate("document.title") == "m: 1 image explained"


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_pictures_are_the_pixels(channels: int, mode: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, channels), dtype=np.uint8)
    with Image.open(BytesIO(base64.b64decode(data_uri(pixels).removeprefix("data:image/png;base64,")))) as image:
        assert image.mode == mode
        np.testing.assert_array_equal(np.asarray(image).reshape(5, 7, channels), pixels)


def test_large_pictures_are_scaled_down() -> None:
    uri = data_uri(np.zeros((100, 2000, 3), np.uint8))
    with Image.open(BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))) as image:
        assert image.size == (256, 13)

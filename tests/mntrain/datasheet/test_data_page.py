"""The page of `mntrain data --html` in a browser: images with labels and names, equal ones side by side, columns."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from chromium import Chromium
from PIL import Image

from mntrain.commands.cli import main

SEEN = """
(() => ({
  images: [...document.images].map(one => ({
    shown: one.complete && one.naturalWidth > 0 && one.getBoundingClientRect().width > 30,
    size: [one.naturalWidth, one.naturalHeight], alt: one.alt,
    caption: one.nextElementSibling ? one.nextElementSibling.textContent : ''})),
  drawings: [...document.querySelectorAll('figure svg')].map(one => one.getBoundingClientRect().width > 50 &&
    one.closest('[role=img]').getAttribute('aria-label')),
  pairs: [...document.querySelectorAll('#in-two-splits .strip')].map(one => ({
    label: one.querySelector('h3').textContent, images: [...one.querySelectorAll('img')].map(img => img.src)})),
  sections: [...document.querySelectorAll('section')].map(one => one.id),
  text: document.body.innerText, width: document.documentElement.scrollWidth, scripts: document.scripts.length,
}))()
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two classes of colored pictures, wider than high; a test image is a training image of the other class."""
    folder, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split in ("train", "test"):
        for name in ("cat <b>", "dog"):
            (folder / split / name).mkdir(parents=True)
            for number in range(10):
                pixels = random.integers(0, 256, (20, 30, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    (folder / "test/dog/3.png").write_bytes((folder / "train/cat <b>/5.png").read_bytes())
    (folder / "notes.txt").write_text("mine")
    return folder


@pytest.fixture(scope="module")
def page(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of the pictures, shown as the model gets them."""
    file = tmp_path_factory.mktemp("page") / "new" / "pictures.html"
    words = ["--data.source", "images", "--data.path", str(pictures), "--data.image_size", "16", "--data.color", "L"]
    fitted = ["--data.image_fit", "pad", "--data.validation_fraction", "0.5", "--html", str(file), "--json"]
    assert main(["data", "digits", *words, *fitted]) == 0
    return file


@pytest.mark.parametrize("width", [375, 1280])
def test_images_are_shown_as_the_model_gets_them(page: Path, browser: Chromium, width: int) -> None:
    browser.open(page.as_uri(), width=width)
    found = browser.evaluate(SEEN)
    assert found["sections"] == ["summary", "classes", "in-two-splits", "train", "validation", "test"]
    assert all(image["shown"] for image in found["images"])
    # Two of the pair; five, five and eight of each class.
    assert len(found["images"]) == 2 + 2 * (5 + 5 + 8)
    assert {tuple(image["size"]) for image in found["images"]} == {(16, 16)}
    captions = {image["alt"]: image["caption"] for image in found["images"]}
    assert captions["test/dog/0.png, dog"] == "0.png"
    assert "cat <b> · 10" in found["text"]
    assert "1 test image is also in train (test/dog/3.png = train/cat <b>/5.png)" in found["text"]
    (pair,) = found["pairs"]
    assert pair["label"] == "test/dog/3.png = train/cat <b>/5.png"
    assert pair["images"][0] == pair["images"][1]
    assert "notes.txt" in found["text"]
    assert found["width"] <= width
    assert found["scripts"] == 0


def test_the_page_loads_without_requests_or_errors(page: Path, browser: Chromium) -> None:
    browser.open(page.as_uri(), width=1280)
    browser.evaluate(SEEN)
    complaints = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    assert [event for event in browser.events if event.get("method") in complaints] == []
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]


def test_a_page_of_rows_draws_numbers_and_categories(tmp_path: Path, browser: Chromium) -> None:
    random = np.random.default_rng(0)
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["size", "$price$", "color", "y"])
        for number in range(60):
            price = "" if number == 7 else f"{random.normal():.3f}"
            rows.writerow([number, price, ("red", "green", "blue")[number % 3], f"{random.normal():.3f}"])
    page = tmp_path / "rows.html"
    where = ["--data.source", "table", "--data.path", str(tmp_path / "rows.csv"), "--data.target_column", "y"]
    assert main(["data", "uci", *where, "--html", str(page)]) == 0
    browser.open(page.as_uri(), width=1280)
    found = browser.evaluate(SEEN)
    assert found["sections"] == ["summary", "columns", "values"]
    assert len(found["drawings"]) == 4
    assert any("$price$" in str(label) for label in found["drawings"])
    assert any("3 values of color" in str(label) for label in found["drawings"])
    assert "category (3)" in found["text"]


def test_a_page_that_cannot_be_written_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "digits", "--html", str(tmp_path)]) == 1
    assert "it is a folder. Choose another --html" in capsys.readouterr().err

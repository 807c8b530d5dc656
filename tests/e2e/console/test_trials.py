"""Trials that go wrong, or have numbers and inputs that a page may alter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from console_page import ConsolePage
from PIL import Image

FAULT = "document.getElementById('trial-fault').innerText"
SETTLED = "document.getElementById('trial-results').getAttribute('aria-busy') === 'false'"


@pytest.fixture(scope="module")
def server(further_models: Path, start_console: Callable[..., Any]) -> Any:
    """Serves the models, without a limit for tensors that is below the page's."""
    return start_console(further_models)


def write(browser: Chromium, text: str) -> None:
    """Writes into the field for rows or tensors."""
    browser.evaluate(f"document.getElementById('text-input').value = {json.dumps(text)}")


@pytest.mark.parametrize(
    ("model", "text", "shown"),
    [
        ("integers", '{"x": [[9007199254740993]]}', "9007199254740993"),
        ("integers", '{"x": [[-9223372036854775808]]}', "-9223372036854775808"),
        ("integers", '{"x": [[5]]}', "5"),
        ("halves", '{"x": [[-1.5]]}', "-1.5"),
        ("texts", '{"x": [["nan"]]}', '"nan"'),
        ("texts", '{"x": [["9007199254740993"]]}', '"9007199254740993"'),
    ],
)
def test_elements_are_shown_as_they_were_written(
    server: Any, browser: Chromium, model: str, text: str, shown: str
) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", model)
        write(browser, text)
        page.predict()
        browser.wait_for("document.querySelector('#trial-results pre') !== null")
        assert page.text("#trial-results pre") == shown


def test_numbers_without_a_value_are_no_texts(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try", refusals=(400, 500)) as page:
        page.choose("#trial-model", "quotients")
        write(browser, '{"x": [[0, 1, -1]]}')
        page.predict()
        browser.wait_for(f"document.querySelector('#trial-results pre') !== null || {FAULT} !== ''")
        assert page.text("#trial-results pre") == "nan  inf  -inf"


def test_what_has_no_answer_has_no_latency(server: Any, browser: Chromium, digits: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "not an image.png"
    broken.write_text("<svg/>")
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        browser.choose_files("#image-files", [broken])
        browser.click("#trial-latency")
        browser.wait_for(f"{SETTLED} && {FAULT} !== ''")
        assert page.text("#trial-fault").startswith("not an image.png: not an image")
        assert page.text("#trial-results") == "Answers appear here."
        assert page.text("#trial-latency") == "Measure latency"
        page.choose("#trial-model", "rows")
        write(browser, "age,income,color\n1,2,red\nx,2,red\n")
        browser.click("#trial-latency")
        browser.wait_for(f"{SETTLED} && {FAULT} !== ''")
        assert page.text("#trial-fault") == "Column 'age' is 'x', which is no number."
        write(browser, "age,income,color\n1,2,red\n")
        browser.click("#trial-latency")
        browser.wait_for("document.getElementById('trial-latency').innerText.startsWith('Measuring')")
        page.choose("#trial-way", "Tensors")  # ends it
        assert page.text("#trial-latency") == "Measure latency"
        browser.click("#trial-latency")
        browser.wait_for(f"{SETTLED} && document.querySelector('#trial-results .chart') !== null")
        assert page.text("#trial-latency") == "Measure latency"


def test_a_name_keeps_its_first_letter(server: Any, browser: Chromium, tmp_path: Path) -> None:
    files = [tmp_path / "notimage.png", tmp_path / "not an image.png"]
    for file in files:
        file.write_text("<svg/>")
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        browser.choose_files("#image-files", files)
        page.predict()
        browser.wait_for("document.querySelectorAll('#trial-results .fault').length === 2")
        assert [text.partition(":")[0] for text in page.texts("#trial-results .fault")] == [file.name for file in files]
        written = browser.evaluate("""import("./api.js").then(({sentence}) => [
          sentence("models/1/neighbors.npz was changed"),
          sentence("neighbors.npz was changed"),
          sentence("model 'a' is not there"),
          sentence("an image is damaged", "an image"),
        ])""")
        assert written == [
            "models/1/neighbors.npz was changed.",
            "neighbors.npz was changed.",
            "Model 'a' is not there.",
            "an image is damaged.",
        ]


def test_one_model_that_fails_leaves_the_answer_of_the_other(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try", refusals=(400, 500)) as page:
        for first, second in (("integers", "picky"), ("picky", "integers")):
            page.choose("#trial-model", first)
            page.choose("#trial-other", second)
            write(browser, '{"x": [[7]]}')
            page.predict()
            browser.wait_for("document.querySelectorAll('.column').length === 2")
            browser.wait_for("document.querySelector('#announce').textContent.includes('integers: answered.')")
            assert page.texts(".answerer h2 bdi") == [first, second]
            assert page.texts("[aria-label='Answers of integers'] pre") == ["7"]
            assert len(page.texts("[aria-label='Answers of picky'] .fault")) == 1
            assert len(page.texts(".column pre, .column .fault")) == 2
            assert page.text("#trial-fault") == ""


def test_no_answer_stays_beside_a_fault_or_another_model(server: Any, browser: Chromium) -> None:
    empty = "Answers appear here."
    with ConsolePage(browser, server.http, "try", refusals=(400,)) as page:
        for change in ("fault", "model", "other", "way"):
            page.choose("#trial-model", "rows" if change == "way" else "integers")
            if change != "way":
                write(browser, '{"x": [[7]]}')
            page.predict()
            browser.wait_for("document.querySelectorAll('.column').length === 1")
            if change == "fault":
                write(browser, '{"x": 1')
                page.predict()
                assert page.text("#trial-fault").startswith("The text of the tensors is no JSON")
            elif change == "model":
                page.choose("#trial-model", "texts")
            elif change == "other":
                page.choose("#trial-other", "picky")
            else:
                page.choose("#trial-way", "Tensors")
            assert page.text("#trial-results") == empty, change
            assert (page.text("#trial-fault") == "") == (change != "fault")


def test_a_model_that_answers_with_images_takes_tensors(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "segment")
        assert browser.evaluate("document.getElementById('trial-way-label').hidden")
        page.predict()
        browser.wait_for("document.querySelector('#trial-results h3') !== null")
        assert "[1, 3, 16, 16]" in page.text("#trial-results h3")


def test_tensors_are_a_second_way_for_images_and_rows(server: Any, browser: Chromium, digits: list[Path]) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        assert page.texts("#trial-way option") == ["Images", "Tensors"]
        page.choose("#trial-way", "Tensors")
        assert browser.evaluate("document.getElementById('explain-label').hidden")
        page.predict()
        browser.wait_for("document.querySelectorAll('#trial-results pre').length > 0")
        page.choose("#trial-way", "Images")
        browser.choose_files("#image-files", digits[:1])
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 1")
        page.choose("#trial-way", "Tensors")
        page.choose("#trial-model", "rows")  # each model begins with its own way
        assert browser.evaluate("document.getElementById('trial-way').value") == "rows"
        assert page.texts("#trial-way option") == ["Rows", "Tensors"]


def test_images_that_are_left_out_are_named(server: Any, browser: Chromium, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.png" for number in range(42)]
    for file in files:
        Image.new("L", (8, 8)).save(file)
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        browser.choose_files("#image-files", files[:34])
        browser.wait_for("document.querySelectorAll('.files li').length === 32")
        assert page.text("#left-out") == "32 images are taken at a time. Left out: 32.png, 33.png."
        assert page.text("#announce").endswith("Left out: 32.png, 33.png.")
        assert page.texts(".files li span")[::31] == ["0.png", "31.png"]
        browser.click(".files li button")
        browser.wait_for("document.querySelectorAll('.files li').length === 31")
        assert browser.evaluate("document.getElementById('left-out').hidden")
        browser.choose_files("#image-files", files[32:])
        browser.wait_for("document.querySelectorAll('.files li').length === 32")
        named = ", ".join(file.name for file in files[33:41])
        assert page.text("#left-out") == f"32 images are taken at a time. Left out: {named} and 1 more."


def test_a_file_that_misses_the_field_does_not_replace_the_page(
    server: Any, browser: Chromium, digits: list[Path]
) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        for target in ("#trial-results", ".bar"):
            browser.drop_files(target, digits[:1])
        assert page.texts(".files li") == []
        # What a browser does with a file that no listener wants is not seen without its window.
        prevented = browser.evaluate("""["dragover", "drop"].flatMap((name) => [true, false].map((isFile) => {
          const dataTransfer = new DataTransfer();
          if (isFile) dataTransfer.items.add(new File(["a"], "a.png"));
          else dataTransfer.setData("text/plain", "a");
          const event = new DragEvent(name, {bubbles: true, cancelable: true, dataTransfer});
          document.getElementById("trial-results").dispatchEvent(event);
          return event.defaultPrevented;
        }))""")
        assert prevented == [True, False, True, False]
        browser.drop_files(".zone", digits[:1])
        browser.wait_for("document.querySelectorAll('.files li').length === 1")

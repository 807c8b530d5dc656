"""The console of a real server, clicked through in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Chromium
from console_page import ConsolePage
from PIL import Image

from mnserve.client.blocking import Client


def pixels(files: list[Path]) -> np.ndarray[Any, Any]:
    """The images as the digits take them: uint8 [B, 1, 8, 8]."""
    return np.stack([np.asarray(Image.open(file))[np.newaxis] for file in files])


def test_models_are_listed_with_their_states_and_why(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "models") as page:
        browser.wait_for("document.querySelectorAll('#models-table tbody tr').length === 7")
        rows = dict(zip(page.texts("tbody th bdi"), page.texts("tbody td:nth-child(2)"), strict=True))
        assert rows.pop("broken").startswith("Not ready\n")
        assert "model.onnx" in page.text("tr[data-model=broken] .reason")
        assert set(rows.values()) == {"Ready"}
        assert page.text("#models-count") == "6 of 7 ready"
        assert page.text("#state") == "Not ready: 1 model"
        browser.click("tr[data-model=double] summary")
        assert page.texts("tr[data-model=double] .tensors li") == ["x FP32 [n, 3]", "y FP32 [n, 3]"]


@contextmanager
def calls(address: str) -> Iterator[None]:
    """Calls the model ``double`` all the time, with two rows."""
    stop = threading.Event()

    def call() -> None:
        with Client(address) as client:
            while not stop.wait(0.02):
                client.infer("double", {"x": np.ones((2, 3), np.float32)})

    with ThreadPoolExecutor(1) as thread:
        going = thread.submit(call)
        try:
            yield
        finally:
            stop.set()
        going.result()


def test_traffic_is_drawn_as_it_comes(server: Any, browser: Chromium) -> None:
    chart = ".charts .chart:nth-child({})"
    with ConsolePage(browser, server.http) as page, calls(server.address):
        page.wait_until_known()
        page.choose("#traffic-model", "double, version 1")
        page.open_table(chart.format(1))
        figures = f"[...document.querySelectorAll('{chart.format(1)} tbody td:nth-child(2)')]"
        browser.wait_for(f"{figures}.some(one => +one.innerText > 0)")
        browser.wait_for("document.querySelector('.tile:nth-child(2) dd').innerText.endsWith('ms')")  # p50
        browser.wait_for("document.querySelector('.tile:nth-child(4) dd').innerText === '2'")  # rows a batch
        page.open_table(chart.format(3))
        assert page.texts(f"{chart.format(3)} tbody th") == ["2"]
        assert "at most" in browser.evaluate("document.querySelector('.plot').getAttribute('aria-label')")
        assert browser.evaluate("document.querySelectorAll('.charts canvas').length") == 4
        shades = browser.evaluate("""(() => {
          const canvas = document.querySelector('.charts canvas');
          const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          return new Set(new Uint32Array(data.buffer)).size;
        })()""")
        assert shades > 3, "the chart is empty"


def test_an_image_is_predicted_and_explained(server: Any, browser: Chromium, digits: list[Path]) -> None:
    with Client(server.address) as client:
        names = ["probabilities", "unadapted_probabilities", "neighbor_weights", "neighbor_labels", "neighbor_indices"]
        expected = client.infer("digits-mn", {"image": pixels(digits)}, names)
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        browser.choose_files("#image-files", digits[:1])
        browser.drop_files(".zone", digits[1:])
        browser.wait_for("document.querySelectorAll('.files li').length === 2")
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 2")
        for index in range(2):
            answer = f".answer:nth-of-type({index + 1})"
            best = int(expected["probabilities"][index].argmax())
            assert page.text(f"{answer} h3") == f"{best}\n{expected['probabilities'][index][best] * 100:.1f} %"
            before = expected["unadapted_probabilities"][index]
            assert page.text(f"{answer} .query p:nth-of-type(2)").endswith(
                f"{before.argmax()}, {before.max() * 100:.1f} %"
            )
            weights = [f"{weight * 100:.1f} %" for weight in expected["neighbor_weights"][index]]
            told = [
                f"{label} {weight} entry {entry}"
                for label, weight, entry in zip(
                    expected["neighbor_labels"][index], weights, expected["neighbor_indices"][index], strict=True
                )
            ]
            assert page.texts(f"{answer} .neighbors li > p") == told
        images = browser.evaluate(
            "[...document.querySelectorAll('.neighbors img')].map(one => [one.naturalWidth, one.alt])"
        )
        assert images
        assert all(width == 8 and text.startswith("Training image ") for width, text in images)
        # The table beside a chart has both distributions.
        page.open_table(".answer")
        first = page.texts(".answer tbody tr:first-child > *")
        best = int(expected["probabilities"][0].argmax())
        assert first == [
            str(best),
            f"{expected['probabilities'][0][best] * 100:.1f} %",
            f"{expected['unadapted_probabilities'][0][best] * 100:.1f} %",
        ]


def test_without_explanation_none_is_shown(server: Any, browser: Chromium, digits: list[Path]) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        browser.click("#trial-explain")
        browser.choose_files("#image-files", digits[:1])
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 1")
        assert browser.evaluate("document.querySelectorAll('.neighbors').length") == 0


def test_a_drawing_is_predicted_as_it_is_seen(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-plain")
        left, top, width, height = browser.wait_for("""(() => {
          const canvas = document.querySelector('.drawing canvas');
          if (canvas === null) return null;
          canvas.scrollIntoView({block: 'center'});
          const {left, top, width, height} = canvas.getBoundingClientRect();
          return [left, top, width, height];
        })()""")
        browser.drag([(left + width * 0.8, top + height * y / 10) for y in range(2, 9)])  # a one, at the right
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 1")
        assert "drawing.png" in page.text(".answer")
        columns = browser.evaluate("""(async () => {
          const image = document.querySelector('.answer .pixels');
          await image.decode();
          const canvas = new OffscreenCanvas(8, 8);
          const pencil = canvas.getContext('2d');
          pencil.drawImage(image, 0, 0);
          const {data} = pencil.getImageData(0, 0, 8, 8);
          return [...Array(8).keys()].map(x => [...Array(8).keys()].reduce((sum, y) => sum + data[4 * (8 * y + x)], 0));
        })()""")
        assert sum(columns[3:5]) > 0.8 * sum(columns) > 0, "it was brought to the middle"
        browser.click(".side button")
        page.predict()
        assert page.text("#trial-fault") == "Choose an image, or draw one."


def test_two_models_are_compared_on_one_input(server: Any, browser: Chromium, digits: list[Path]) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "digits-mn")
        page.choose("#trial-other", "digits-plain")
        browser.choose_files("#image-files", digits[:1])
        page.predict()
        browser.wait_for("document.querySelectorAll('.column').length === 2")
        assert page.texts(".answerer h2 bdi") == ["digits-mn", "digits-plain"]
        first, second = page.texts(".answer h3 bdi")
        said = "Both give the same class." if first == second else "They give different classes."
        assert page.text("#trial-results .wide") == said
        browser.click("#trial-latency")
        browser.wait_for("document.querySelector('#trial-results .note')?.innerText.includes('times as long')")
        page.open_table("#trial-results")
        rows = page.texts("#trial-results tbody tr")
        assert [row.split("\t")[0] for row in rows] == ["digits-mn", "digits-plain"]
        assert all(cell.endswith("ms") or cell.endswith("s") for row in rows for cell in row.split("\t")[1:])


def test_a_table_is_predicted_row_by_row(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "rows")
        example = browser.evaluate("document.getElementById('text-input').value")
        assert example == "age,income,color\n0,0,blue\n"
        browser.click("#text-input")
        browser.evaluate("document.getElementById('text-input').select()")
        browser.type("id;age;income;color\na;1,5;2;red\nb;x;2;red\nc;;1;pink\n")
        page.predict()
        browser.wait_for("document.querySelectorAll('#trial-results tbody tr').length === 3")
        heads = page.texts("#trial-results thead th")
        unadapted = ["y without adaptation", "z without adaptation", "Neighbors"]
        assert heads == ["Row", "y", "z", *unadapted, "id", "age", "income", "color"]
        first, second, third = (row.split("\t") for row in page.texts("#trial-results tbody tr"))
        assert first[:3] == ["1", "221.5", "-221.5"]  # 1.5 + 10 · 2 + 100 · 2
        assert second[:2] == ["2", "Column 'age' is 'x', which is no number."]
        assert third[:3] == ["3", "-89.5", "89.5"]  # the missing age is 0.5, and the color is unknown
        assert "pink" in page.text("#trial-results .note")


def test_rows_may_be_json(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "rows")
        browser.click("#text-input")
        browser.evaluate("document.getElementById('text-input').select()")
        browser.type('[{"age": 1, "income": 2, "color": "blue"}, {"color": "red", "income": null, "age": 3}]')
        page.predict()
        browser.wait_for("document.querySelectorAll('#trial-results tbody tr').length === 2")
        assert page.texts("#trial-results tbody td.best") == ["21", "208"]


def test_any_other_model_takes_tensors(server: Any, browser: Chromium) -> None:
    with ConsolePage(browser, server.http, "try", refusals=(400,)) as page:
        page.choose("#trial-model", "double")
        browser.click("#text-input")
        browser.evaluate("document.getElementById('text-input').select()")
        browser.type('{"x": [[1, 2.5, -3]]}')
        page.predict()
        browser.wait_for("document.querySelector('#trial-results pre') !== null")
        assert page.text("#trial-results pre") == "2  5  -6"
        browser.evaluate("document.getElementById('text-input').value = '{\"x\": [[1, 2], [3]]}'")
        page.predict()
        assert "lists have different lengths" in page.text("#trial-fault")


def test_models_are_unloaded_and_loaded_again(server: Any, browser: Chromium) -> None:
    state = "document.querySelector('tr[data-model=colors] .chip')?.innerText"
    with ConsolePage(browser, server.http, "models", refusals=(400,)) as page:
        browser.click("tr[data-model=colors] [data-action=Unload]")
        assert page.text("#confirm-title") == "Unload colors?"
        browser.click("#confirm-dialog [value=no]")
        assert browser.evaluate(state) == "Ready"
        browser.click("tr[data-model=colors] [data-action=Unload]")
        browser.click("#confirm-yes")
        browser.wait_for(f"{state} === 'Not loaded'")
        browser.wait_for("document.getElementById('announce').innerText === 'colors: unloaded.'")
        with Client(server.address) as client:
            assert not client.model_ready("colors")
        browser.click("tr[data-model=colors] [data-action=Load]")
        browser.wait_for(f"{state} === 'Ready'")
        browser.click("tr[data-model=colors] [data-action=Reload]")
        browser.wait_for("document.getElementById('announce').innerText === 'colors: loaded again.'")
        browser.click("tr[data-model=broken] [data-action=Reload]")
        browser.wait_for("document.querySelector('tr[data-model=broken] .fault') !== null")
        assert "Failed to load 'broken'" in page.text("tr[data-model=broken] .fault")


def test_names_that_look_like_markup_stay_text(server: Any, browser: Chromium, digits: list[Path]) -> None:
    with ConsolePage(browser, server.http, "try") as page:
        page.choose("#trial-model", "hostile")
        browser.choose_files("#image-files", digits)
        page.predict()
        browser.wait_for("document.querySelectorAll('.answer').length === 2")
        page.open_table(".answer")
        labels = set(page.texts(".answer bdi, .answer tbody th"))
        assert any(label.startswith(("<img src=x", "</bdi><script>")) for label in labels), labels
        assert browser.evaluate("document.querySelectorAll('img[src=x], main script').length") == 0
        assert browser.evaluate("document.title") == "Try a model – mnserve"


@pytest.mark.parametrize("name", ["Enter", " "])
def test_the_keyboard_suffices(server: Any, browser: Chromium, name: str) -> None:
    text = "(document.activeElement.innerText || document.activeElement.id)"

    def next_focused() -> str:
        before = json.dumps(browser.evaluate(text))
        browser.press("Tab")
        browser.wait_for(f"{text} !== {before}")
        return str(browser.evaluate(text))

    with ConsolePage(browser, server.http) as page:
        page.wait_until_known()
        browser.wait_for("document.hasFocus()")
        order = [next_focused() for _ in range(5)]
        assert order == ["Skip to content", "Traffic", "Models", "Try a model", "Token"]
        browser.evaluate("document.querySelector('nav a[href=\"#try\"]').focus()")
        browser.press("Enter")
        page.choose("#trial-model", "double")
        # The view is shown after the key, and what is hidden takes no focus.
        button = "document.querySelector('#trial-form .primary')"
        browser.wait_for(f"{button}.focus(), document.activeElement === {button}")
        browser.press(name)
        browser.wait_for("document.querySelector('#trial-results pre') !== null")
        browser.wait_for("document.querySelector('#announce').textContent === 'double: answered.'")

"""Model cards parse, say what an artifact holds, and show hostile names without doing what they say."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium
from markdown_it import MarkdownIt

from mntrain.artifact import load_artifact, read_config, save_artifact
from mntrain.artifact_config import ArtifactConfig
from mntrain.hugging_face_hub import ModelCard
from mntrain.model_card.artifact_card import artifact_card
from mntrain.model_card.markdown import escaped
from mntrain.networks.record import NetworkRecord, PixelRule

RECORDED = Path(__file__).parents[2] / "recorded" / "data" / "artifacts"
HOSTILE = (
    "a|b",
    "`rm -rf`",
    "line\nbreak\n---\n# heading",
    "<script>document.title='x'</script>",
    "<img src=x onerror=alert(1)>",
    "[link](javascript:alert(1))",
    "![picture](https://example.org/x.png)",
    "https://example.org/x",
    "**bold** _it_ ~~gone~~ $x^2$ &lt;b&gt;",
    "- item",
    "1. item",
    "\u202eevil\x1b[31m",
    "--- tail",
)


class _Page(HTMLParser):
    """Tags of a page, and the cells and list items of it as a reader sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def header(card: str) -> Any:
    return ModelCard(card).data


def body(card: str) -> str:
    return card.split("\n---\n", 1)[1]


def rendered(card: str) -> str:
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(body(card)))


def config(name: str = "meta_neighborhoods", **changes: Any) -> ArtifactConfig:
    return dataclasses.replace(read_config(RECORDED / name), **changes)


def test_the_header_is_what_hubs_read() -> None:
    given = config()
    data = header(artifact_card(given))
    assert (data.library_name, data.pipeline_tag) == ("mn-runtime", "image-classification")
    assert "license" not in data.to_dict()
    (test,) = [result for result in data.eval_results if result.dataset_split == "test"]
    assert (test.metric_type, test.metric_value) == ("accuracy", given.metrics["test"]["accuracy"])
    regression = header(artifact_card(config("regressor")))
    assert regression.pipeline_tag == "tabular-regression"
    assert {result.metric_type for result in regression.eval_results} == {"mse", "rmse", "r2"}


def test_the_page_says_what_the_artifact_holds() -> None:
    given = config()
    page = _Page(rendered(artifact_card(given)))
    assert {"h1", "h2", "table", "pre", "ul"} <= set(page.tags)
    for text in ("Meta-Neighborhoods", f"{given.metrics['test']['accuracy']:.2%}", given.split["sha256"], "torch"):
        assert text in page.text
    assert artifact_card(given) == artifact_card(given)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_shows_as_it_is(name: str) -> None:
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(f"x {escaped(name)}")
    page = _Page(html)
    assert page.tags == ["p"]
    shown = " ".join(name.split()).replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert page.text == f"x {shown}\n"
    first = _Page(str(MarkdownIt("commonmark", {"html": True}).render(f"- {escaped(name)}")))
    assert first.tags == ["ul", "li"]


def test_hostile_names_change_nothing_of_the_page() -> None:
    plain = config(data=None)
    data = dataclasses.replace(plain.experiment.data, source="images", path="x\n---\nlicense: mit")
    groups = {name: {"accuracy": 0.5} for name in HOSTILE}
    hostile = config(
        data=None,
        labels=(*HOSTILE, *map(str, range(30))),
        experiment=dataclasses.replace(plain.experiment, data=data),
        metrics=plain.metrics | {"test": plain.metrics["test"] | {"groups": groups}},
    )
    card = artifact_card(hostile)
    expected, page = _Page(rendered(artifact_card(plain))), _Page(rendered(card))
    rows = 1 + len(HOSTILE)
    for tag in set(page.tags) | set(expected.tags):
        more = {"tr": rows, "td": 2 * (rows - 1), "th": 2, "table": 1, "tbody": 1, "thead": 1, "p": 1}.get(tag, 0)
        assert page.tags.count(tag) == expected.tags.count(tag) + more, tag
    read = header(card)
    assert "license" not in read.to_dict()
    assert read.eval_results[0].dataset_name == "images x --- license: mit"
    assert "and 23 more" in page.text


def test_a_head_on_a_network_and_an_adapted_model_say_where_they_come_from() -> None:
    rule = PixelRule(channels=3, height=32, width=32, mean=(0.5,) * 3, std=(0.5,) * 3)
    network = NetworkRecord(kind="onnx", name="/home/bob/nets/net.onnx", sha256="ab" * 32, features=512, pixels=rule)
    head = {
        "method": "tau",
        "settings": {"tau": 0.7, "grid": {"step": 0.1}},
        "scores": {"test": {"accuracy": 0.5, "groups": {"few": {"accuracy": 0.25}, "many": {"accuracy": 0.75}}}},
    }
    text = artifact_card(config("vanilla", network=network, head=head))
    for part in ("net.onnx", "512 features", "tau", "| few | 25.00% |", "32 × 32", "| grid.step | 0.1 |"):
        assert part in text
    assert "/home/bob" not in text, "folders of a machine stay there"
    record = {
        "method": "protonet",
        "settings": {"protonet": {"steps": 3}},
        "start": {"path": "/home/bob/start", "name": "first", "weights_sha256": "cd" * 32, "classes": ["0", "1"]},
        "support": {"path": "/home/bob/birds", "images": 25, "shots": 5, "seed": 0},
    }
    text = artifact_card(config("vanilla", adapted=record))
    assert "Adapted from first, which was trained on 2 classes, by the method protonet, to 25 support image(s)" in text
    assert "/home/bob" not in text


def test_of_the_place_of_the_data_only_its_name_is_told() -> None:
    given = config("vanilla")
    data = dataclasses.replace(given.experiment.data, source="images", path="/home/bob/birds")
    page = artifact_card(config("vanilla", data=None, experiment=dataclasses.replace(given.experiment, data=data)))
    assert "images birds" in page
    assert "/home" not in page


def test_a_long_tail_is_told_by_groups_of_classes() -> None:
    counts = {"cat": 150, "dog": 100, "eel": 20, "fox": 19}
    given = config("vanilla", data={"splits": {"train": {"classes": counts}}})
    test = {"accuracy": 0.5, "accuracy_few": 0.125, "top_5_few": 0.75, "loss_few": 0.3}
    page = artifact_card(dataclasses.replace(given, metrics=given.metrics | {"test": test}))
    assert "19 to 150 training examples. Fewest: fox. By these, 1 many, 2 medium, 1 few: many is above 100" in page
    for part in ("| 12.50% |", "| 75.00% |", "| 0.3 |"):
        assert part in page


@pytest.mark.parametrize(
    "metrics", [{}, {"test": None, "adaptation": {}}, {"test": {"accuracy": float("inf")}, "x": []}]
)
def test_metrics_of_any_kind_have_a_card(metrics: dict[str, Any]) -> None:
    ModelCard(artifact_card(config("vanilla", metrics=metrics, head={"method": "x", "scores": [1], "settings": 3})))


def test_an_artifact_has_its_card_and_loads_without(tmp_path: Path) -> None:
    old = load_artifact(RECORDED / "vanilla")
    save_artifact(tmp_path / "new", old.config, old.model.state_dict(), old.samples)
    assert (tmp_path / "new" / "README.md").read_text(encoding="utf-8") == artifact_card(old.config)
    (tmp_path / "new" / "README.md").unlink()
    assert load_artifact(tmp_path / "new").weights_sha256 == old.weights_sha256


def test_a_browser_shows_the_page(browser: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "card.html"
    html = rendered(artifact_card(config(labels=HOSTILE[:10])))
    page.write_text(f"<!doctype html><meta charset=utf-8><title>card</title>{html}", encoding="utf-8")
    browser.open(page.as_uri(), width=1000)
    assert browser.evaluate("document.title") == "card"
    assert browser.evaluate("document.querySelectorAll('img, a, script').length") == 0
    titles = browser.evaluate("[...document.querySelectorAll('h2')].map(title => title.textContent)")
    assert titles == ["Scores", "Data", "How to use", "Versions"]

"""`mntrain report` of runs with neural similarity: what the section shows, and on a phone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from chromium import Chromium
from torch import nn

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main
from mntrain.layers.similarity.conv import SimilarityConv

SMALL = ["--training.epochs", "1", "--backbone.width", "0.1", "--data.train_limit", "128", "--backbone.name", "cnn9"]
SETTINGS = {
    "static": {"mode": "static", "kind": "unconstrained", "across_map": "static"},
    "shaped": {"mode": "static", "kernel_shape": "true", "shape_keep": "3"},
    "dynamic": {"mode": "dynamic", "hidden": "4", "across_map": "attention"},
    "mixing": {"mode": "dynamic", "hidden": "4", "kind": "unconstrained", "across_map": "dynamic"},
}


def similar(name: str, folder: Path, capsys: pytest.CaptureFixture[str], family: str = "vanilla") -> dict[str, Any]:
    """Train a small network and return the numbers of its report."""
    settings = [word for key, value in SETTINGS[name].items() for word in (f"--backbone.similarity.{key}", value)]
    run = ["--family", family, "--runs", str(folder), "--name", name, "--json"]
    assert main(["fit", "digits", *SMALL, *settings, *run]) == 0
    capsys.readouterr()
    assert main(["report", str(folder / name), "--images", "40", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    numbers: dict[str, Any] = json.loads(out)
    return numbers


def page_section(run: Path) -> str:
    """Return the section of the page."""
    found = re.search(r'<section id="similarity">.*?</section>', (run / "report.html").read_text(), re.DOTALL)
    assert found is not None
    return found.group()


def network_of(run: Path) -> nn.Module:
    network = load_artifact(run / "artifact").model.backbone
    assert isinstance(network, nn.Module)
    return network


@pytest.mark.parametrize(
    ("name", "captions"),
    [
        ("static", ["M − I of each layer", "A test image followed by the similarity"]),
        ("shaped", ["M of each layer", "black taps stay"]),
        ("dynamic", ["M, mean over", "Standard deviation", "the maps m_k(p)", "the attention of the marked position"]),
        ("mixing", ["M − I, mean over", "Standard deviation", "the distance |M(p) − I|", "each followed by the sim"]),
    ],
)
def test_each_kind_of_similarity_has_its_figures(
    name: str, captions: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = similar(name, tmp_path, capsys)
    assert list(numbers)[-2] == "similarity"
    shown = page_section(tmp_path / name)
    found = re.findall("<figcaption>(.*?)</figcaption>", shown)
    assert len(found) == len(captions)
    for caption, words in zip(found, captions, strict=True):
        assert words in caption
    assert shown.count("<svg") == len(captions)
    assert ("gate γ" in shown) == (name in ("dynamic", "mixing"))
    assert ("taps that stay" in shown) == (name == "shaped")


def test_numbers_are_those_of_the_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = similar("shaped", tmp_path, capsys)["similarity"]
    layers = {
        name: layer
        for name, layer in network_of(tmp_path / "shaped").named_modules()
        if isinstance(layer, SimilarityConv)
    }
    assert list(numbers["layers"]) == list(layers)
    assert len(layers) == 8
    for name, layer in layers.items():
        assert layer.shape is not None
        assert layer.similarity is not None
        of_layer, mask = numbers["layers"][name], layer.shape()
        assert of_layer["shape"] == mask.tolist()
        assert of_layer["taps"] == 3
        torch.testing.assert_close(torch.tensor(of_layer["mean"]), (mask * layer.similarity).detach())
        assert of_layer["distance"] >= 6**0.5


def test_the_backbone_of_other_families_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = similar("dynamic", tmp_path, capsys, family="maxl")["similarity"]
    assert [layer["similarity"] for layer in numbers["layers"].values()] == ["dynamic diagonal"] * 8
    assert [layer["similarity"] for layer in numbers["across"].values()] == ["attention"] * 2
    assert numbers["images"] == 32


def test_figures_can_be_seen_on_a_phone(tmp_path: Path, capsys: pytest.CaptureFixture[str], browser: Chromium) -> None:
    similar("dynamic", tmp_path, capsys)
    browser.open((tmp_path / "dynamic" / "report.html").as_uri(), width=375)
    boxes = browser.evaluate(
        "[...document.querySelectorAll('#similarity svg')].map(one => one.getBoundingClientRect())"
        ".map(box => ({width: box.width, height: box.height, right: box.right}))"
    )
    assert len(boxes) == 4
    assert min(min(box["width"], box["height"]) for box in boxes) > 50
    assert max(box["right"] for box in boxes) <= 375

"""Code that the scripts share: options, ratios of exported models, filled dictionaries."""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from common.calibration import CONFIDENCE, STEP_SIZE, features_of, fill_dictionary
from common.figures import with_quartiles, write_json
from common.options import add_json, add_timing, positive_integer, positive_number, script_parser
from common.price import price_of, rank_of
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.models.families import family_named
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", "", "1,5"])
def test_numbers_not_above_zero_are_refused(text: str) -> None:
    for kind in (positive_number, positive_integer):
        with pytest.raises(argparse.ArgumentTypeError, match=f"{text!r} is not a"):
            kind(text)
    assert positive_number("0.5") == 0.5
    assert positive_integer("3") == 3
    with pytest.raises(argparse.ArgumentTypeError):
        positive_integer("0.5")


def test_options_have_defaults_and_the_docstring_as_help(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    parser = script_parser("What it does.\n\n    python it.py\n")
    add_timing(parser, seconds=4, rounds=20, of="variant")
    add_json(parser)
    given = parser.parse_args([])
    assert (given.seconds, given.rounds, given.json) == (4, 20, None)
    given = parser.parse_args(["--seconds", "0.5", "--rounds", "2", "--json", str(tmp_path / "x.json")])
    assert (given.seconds, given.rounds, given.json) == (0.5, 2, tmp_path / "x.json")
    assert "\n    python it.py\n" in parser.format_help()
    assert "measured time of each variant (4)" in parser.format_help()
    for words, message in (
        (["--seconds", "0"], "argument --seconds: '0' is not a number above 0"),
        (["--json", str(tmp_path / "gone" / "x.json")], "the folder"),
    ):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(words)
        assert message in capsys.readouterr().err


def test_figures_are_written_as_text_and_as_json(tmp_path: Path) -> None:
    write_json(None, {})
    write_json(tmp_path / "x.json", {"a": [1, 2.5]})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [1, 2.5]}
    assert with_quartiles(1.234, 1.2, 1.25) == "1.23 (1.20–1.25)"
    assert [rank_of({"adaptation": one}) for one in ({}, {"rank": 3}, {"rank": 3, "integer_keys": {"rank": 5}})] == [
        None,
        3,
        5,
    ]


def test_the_price_is_that_of_the_first_model_over_the_second(
    repository: Path, onnx_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnserve.bench.timing._WARM_UP_SECONDS", 0.01)
    tensor = ("FLOAT", ["batch", 32])
    write = partial(onnx_model, inputs={"x": tensor}, outputs={"y": tensor})
    write("fast", [("Neg", ["x"], ["y"])])
    weights = {"up": np.ones((32, 20_000), np.float32), "down": np.ones((20_000, 32), np.float32)}
    write("slow", [("MatMul", ["x", "up"], ["wide"]), ("MatMul", ["wide", "down"], ["y"])], initializers=weights)
    found = price_of(repository, "slow", "fast", (2, 4), seconds=0.02, rounds=3)
    assert [item["batch"] for item in found["results"]] == [2, 4]
    assert all(item["ratio"]["spread"]["median"] > 1 for item in found["results"])
    assert found["settings"]["threads"] == 1


def test_a_filled_dictionary_holds_features_and_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    make = partial(build_backbone, BackboneConfig(name="identity"), (1, 1, 3))
    model = family_named("meta_neighborhoods").build(MetaNeighborhoodsConfig(entries=4), make, 3)
    assert isinstance(model, MetaNeighborhoods)
    images = np.arange(12, dtype=np.uint8).reshape(4, 1, 1, 3)
    monkeypatch.setattr("common.calibration._BATCH", 3)
    keys = features_of(model.backbone, _Halves(), images)
    np.testing.assert_array_equal(keys, images.reshape(4, 3) / 2)
    weight = torch.eye(3)
    fill_dictionary(model, keys, torch.tensor([0, 2, 1, 2]), weight)
    torch.testing.assert_close(model.dictionary.keys.detach(), keys)
    torch.testing.assert_close(model.head.weight.detach(), weight)
    torch.testing.assert_close(model.step_size, torch.tensor(STEP_SIZE))
    values = model.dictionary.value_logits.softmax(dim=-1)
    assert values.argmax(dim=-1).tolist() == [0, 2, 1, 2]
    torch.testing.assert_close(values.max(dim=-1).values, torch.full((4,), CONFIDENCE))


class _Halves(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images / 2

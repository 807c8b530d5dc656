"""Alpha Net as a method of ``mntrain head``, on the classifiers of other methods."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main
from mntrain.errors import ConfigError
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.alpha.compose import compose
from mntrain.heads.alpha.config import AlphaHeadSettings
from mntrain.heads.alpha.sweeps import GAMMAS
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.methods.alpha import alpha
from mntrain.heads.methods.registry import find_method
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.record import read_record
from mntrain.heads.settings import parse_head_settings

SHORT: dict[str, Any] = {"neighbors": 3, "epochs": 2}


def with_settings(problem: HeadProblem, base: HeadResult, **settings: Any) -> HeadProblem:
    sections = replace(problem.settings, alpha=AlphaHeadSettings(**SHORT | settings))
    return replace(problem, settings=sections, method="alpha", start=base)


@pytest.mark.parametrize("start", ["joint", "crt", "lws"])
def test_it_stands_on_any_linear_classifier(start: str) -> None:
    method = find_method(f"alpha-{start}")
    assert (method.method.run, method.start) == (alpha, start)


def test_it_composes_the_classifier_that_it_starts_from(problem: HeadProblem, base: HeadResult) -> None:
    result = alpha(with_settings(problem, base))
    assert result.linear is not None
    assert base.linear is not None
    assert result.composition is not None
    assert result.composition.classes.tolist() == [5, 6, 7]
    assert set(result.composition.neighbors.flatten().tolist()) <= {0, 1, 2, 3, 4}
    composed = compose(base.linear, result.composition.members, result.composition.coefficients)
    np.testing.assert_array_equal(result.linear.weight, composed.weight)
    np.testing.assert_array_equal(result.linear.bias, composed.bias)
    assert result.linear.weight[:5].tobytes() == base.linear.weight[:5].tobytes()
    assert len(result.details["curve"]) == 2


def test_modules_read_classifiers_on_the_scale_that_they_learned_on(problem: HeadProblem, base: HeadResult) -> None:
    """Features of another unit, with the base classifier to match, give the same coefficients."""
    first = alpha(with_settings(problem, base)).composition
    factor = np.float32(1024)
    split = replace(problem.store.train, features=problem.store.train.features * factor)
    scale = replace(base.scale, mean=base.scale.mean * factor, std=base.scale.std * factor)
    assert base.linear is not None
    other = replace(base, predictor=replace(base.linear, weight=base.linear.weight / factor), scale=scale)
    changed = replace(with_settings(problem, other), store=replace(problem.store, train=split))
    second = alpha(changed).composition
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(second.coefficients, first.coefficients, atol=1e-5)


def test_gamma_can_be_chosen_on_validation_rows(problem: HeadProblem, base: HeadResult) -> None:
    result = alpha(with_settings(problem, base, choose_gamma=True, sweep="neighbors"))
    gammas, counts = result.sweeps
    assert (gammas.name, gammas.values, counts.name, counts.values) == ("γ", GAMMAS, "K", (2, 5))
    best = max(GAMMAS, key=lambda gamma: problem.rank(gammas.predictor(gamma)))
    assert result.chosen == {"gamma": best}
    assert gammas.chosen == best
    assert result.predictor is gammas.predictor(best)


@pytest.mark.parametrize("settings", [{"choose_gamma": True}, {"gamma": 0.4}])
def test_every_sweep_has_the_scores_of_the_head_at_its_value(
    problem: HeadProblem, base: HeadResult, settings: dict[str, Any]
) -> None:
    result = alpha(with_settings(problem, base, neighbors=2, sweep="both", **settings))
    assert [sweep.name for sweep in result.sweeps] == ["γ", "K"]
    assert result.linear is not None
    for sweep in result.sweeps:
        assert sweep.chosen is not None
        swept = sweep.predictor(sweep.chosen)
        assert isinstance(swept, LinearClassifier)
        np.testing.assert_array_equal(swept.weight, result.linear.weight)
        np.testing.assert_array_equal(swept.bias, result.linear.bias)


def test_the_command_writes_artifact_and_record(store: FeatureStore, tmp_path: Path) -> None:
    words = ["head", "alpha-crt", str(store.path), "--runs", str(tmp_path), "--head.least_steps", "20"]
    settings = ["--alpha.neighbors", "3", "--alpha.epochs", "1", "--alpha.sweep", "both", "--alpha.network", "shared"]
    assert main([*words, *settings]) == 0
    record = read_record(tmp_path / "tail-alpha-crt")
    assert (record["method"], record["base"]) == ("alpha-crt", "crt")
    assert record["composition"]["classes"] == ["class 5", "class 6", "class 7"]
    distances = np.array(record["composition"]["distances"])
    assert (np.diff(distances, axis=1) >= 0).all()
    assert np.array(record["composition"]["coefficients"]).shape == (3, 4)
    assert record["details"]["settings"]["network"] == "shared"
    assert [sweep["name"] for sweep in record["sweeps"]] == ["γ", "K"]
    assert [set(score) for score in record["sweeps"][0]["test"]] == [{"few", "medium", "many", "all"}] * len(GAMMAS)
    artifact = load_artifact(tmp_path / "tail-alpha-crt" / "artifact")
    assert artifact.config.head is not None
    composition = json.loads((tmp_path / "tail-alpha-crt" / "artifact" / "composition.json").read_text())
    assert composition == record["composition"]


def test_the_page_shows_the_chosen_gamma_alone(store: FeatureStore, tmp_path: Path) -> None:
    words = [
        "head",
        "alpha",
        str(store.path),
        "--runs",
        str(tmp_path),
        "--head.least_steps",
        "20",
        "--alpha.epochs",
        "1",
    ]
    assert main([*words, "--alpha.neighbors", "2", "--alpha.choose_gamma", "true"]) == 0
    chosen = read_record(tmp_path / "tail-alpha")["chosen"]["gamma"]
    assert chosen != AlphaHeadSettings().gamma
    assert main(["report", str(tmp_path / "tail-alpha")]) == 0
    page = (tmp_path / "tail-alpha" / "report.html").read_text()
    assert re.findall(r"gamma: ([0-9.]+)", page) == [f"{chosen}"] * 2


def test_wrong_words_are_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"--alpha\.gama is no setting.*did you mean --alpha\.gamma"):
        parse_head_settings(["--alpha.gama", "0.5"])
    with pytest.raises(ConfigError, match=r"alpha\.gamma is 1\.5; it must be above 0 and at most 1"):
        parse_head_settings(["--alpha.gamma", "1.5"])
    with pytest.raises(ConfigError, match=r"alpha\.sweep"):
        parse_head_settings(["--alpha.sweep", "all"])
    for words in (["--alpha.choose_gamma", "true"], ["--alpha.sweep", "gamma"], ["--alpha.sweep", "both"]):
        with pytest.raises(ConfigError, match=rf"'later', which has no γ, but {words[0][2:]} is .*leave it out"):
            parse_head_settings(["--alpha.network", "later", *words])
    with pytest.raises(ConfigError, match=r"alpha\.gamma is 0\.3, but alpha\.choose_gamma is true"):
        parse_head_settings(["--alpha.gamma", "0.3", "--alpha.choose_gamma", "true"])


def test_too_few_base_classes_are_refused(problem: HeadProblem, base: HeadResult) -> None:
    with pytest.raises(ConfigError, match=r"takes 6 base class.*there are 5.*Lower --alpha\.neighbors"):
        alpha(with_settings(problem, base, neighbors=6))

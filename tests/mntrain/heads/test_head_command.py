"""`mntrain head`: artifacts of all linear methods, folders, comparison and report, and what is refused."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel

from mnexport.commands.cli import main as export
from mntrain.artifact import TableArtifact, load_artifact
from mntrain.commands.cli import main
from mntrain.feature_store.store import open_store
from mntrain.heads.head_on import head
from mntrain.heads.methods.registry import METHODS

WriteFeatures = Callable[..., Path]
QUICK = ["--head.least_steps", "40", "--head.epochs", "1", "--head.learning_rate", "0.1", "--head.neighbors", "3"]
"""Settings that take no time."""
SHORT = ["--training.epochs", "2", "--meta_neighborhoods.entries", "20"]
"""Those of the method that trains a family."""
LINEAR = [name for name, method in METHODS.items() if method.linear]
"""Methods whose head is an artifact."""
ALL = [*METHODS, "bias-crt"]


class Made:
    """Heads of all methods on two stores."""

    def __init__(self, root: Path, write_features: WriteFeatures) -> None:
        self.stores = [write_features(root / f"lt{seed}", seed=seed) for seed in range(2)]
        self.runs = root / "runs"
        where = [*map(str, self.stores), "--runs", str(self.runs)]
        assert main(["head", ",".join(ALL), *where, *QUICK, *SHORT, "--json"]) == 0

    def record(self, name: str) -> Any:
        """Content of head.json of a run."""
        return json.loads((self.runs / name / "head.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, write_features: WriteFeatures) -> Made:
    return Made(tmp_path_factory.mktemp("heads"), write_features)


def test_a_head_is_evaluated_on_its_store_alone(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = made.runs / "lt0-crt" / "artifact"
    assert main(["evaluate", str(artifact), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] == pytest.approx(made.record("lt0-crt")["scores"]["test"]["all"]["accuracy"])
    assert main(["evaluate", str(artifact), "--data-path", str(made.stores[1])]) == 1
    assert "are not those the artifact was trained with" in capsys.readouterr().err


@pytest.mark.parametrize("method", [*LINEAR, "bias-crt"])
def test_the_artifact_of_a_linear_head_answers_as_its_record_says(made: Made, method: str) -> None:
    artifact, store = load_artifact(made.runs / f"lt0-{method}" / "artifact"), open_store(made.stores[0])
    assert isinstance(artifact, TableArtifact)
    record = made.record(f"lt0-{method}")
    with torch.inference_mode():
        inputs = artifact.preprocessing(torch.from_numpy(np.array(store.test.features)))
        logits = artifact.model(inputs).logits
    accuracy = float((logits.argmax(dim=1).numpy() == store.test.labels).mean())
    assert accuracy == pytest.approx(record["scores"]["test"]["all"]["accuracy"])
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(store.test.labels))
    assert float(loss) == pytest.approx(record["scores"]["test"]["all"]["loss"], rel=1e-3)
    config = artifact.config
    assert config.head is not None
    assert (config.head["method"], config.network, config.split["sha256"]) == (method, store.network, store.sha256)
    assert config.labels == store.label_names
    assert config.metrics["test"]["accuracy"] == pytest.approx(accuracy)
    assert (made.runs / f"lt0-{method}" / "artifact" / "composition.json").exists() == (
        record["composition"] is not None
    )


def test_meta_neighborhoods_is_an_artifact_though_not_linear(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = made.record("lt0-meta-neighborhoods")
    assert (record["linear"], record["artifact"]) == (False, True)
    assert main(["head", "meta-neighborhoods", str(made.stores[0]), *SHORT, "--runs", str(tmp_path)]) == 0
    assert "no artifact" not in "".join(capsys.readouterr())
    settings = {"meta_neighborhoods.entries": 20, "training.epochs": 2, "few": 13}
    result = head("meta-neighborhoods", made.stores[0], settings=settings, runs=tmp_path, name="mine")
    assert result.artifact == tmp_path / "mine-meta-neighborhoods" / "artifact"
    assert load_artifact(result.artifact).config.head is not None
    assert result.record["chosen"]["options"] == ["--meta_neighborhoods.entries", "20", "--training.epochs", "2"]
    assert head("knn", made.stores[0], runs=tmp_path, name="mine").artifact is None


def test_a_head_that_is_not_linear_has_scores_but_no_artifact(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (made.runs / "lt0-knn" / "artifact").exists()
    assert made.record("lt0-knn")["linear"] is False
    assert main(["head", "knn", str(made.stores[0]), "--runs", str(tmp_path)]) == 0
    assert "knn: no artifact, since this head is not linear" in capsys.readouterr().out


def test_a_linear_head_is_exported_as_a_model_of_rows(made: Made, tmp_path: Path) -> None:
    assert export([str(made.runs / "lt0-fixed" / "artifact"), str(tmp_path / "repository" / "fixed")]) == 0
    assert (tmp_path / "repository" / "fixed" / "1" / "model.onnx").is_file()


def test_methods_are_compared_store_by_store(made: Made) -> None:
    result = json.loads((made.runs / "heads-lt0" / "heads.json").read_text())
    assert result["baseline"] == "joint"
    values = {
        method: [made.record(f"lt{seed}-{method}")["scores"]["test"]["few"]["accuracy"] for seed in range(2)]
        for method in ("joint", "crt")
    }
    row = result["methods"]["crt"]
    assert row["accuracy"]["few"]["values"] == values["crt"]
    assert row["accuracy"]["few"]["std"] == pytest.approx(statistics.stdev(values["crt"]))
    steps = [own - other for own, other in zip(values["crt"], values["joint"], strict=True)]
    assert row["differences"]["few"]["mean"] == pytest.approx(statistics.mean(steps))
    p_value = row["differences"]["few"]["p_value"]
    assert p_value is None or p_value == pytest.approx(ttest_rel(values["crt"], values["joint"]).pvalue)
    assert result["methods"]["joint"]["differences"] == {}
    curve = next(curve for curve in result["curves"] if curve["method"] == "bias")
    sweeps = [made.record(f"lt{seed}-bias")["sweeps"][0] for seed in range(2)]
    expected = statistics.mean(sweep["test"][4]["few"]["accuracy"] for sweep in sweeps)
    assert curve["few"][4] == pytest.approx(expected)
    assert {point["method"] for point in result["points"]} == set(ALL)
    assert "<svg" in (made.runs / "heads-lt0" / "heads.svg").read_text()
    assert "| crt |" in (made.runs / "heads-lt0" / "heads.md").read_text()


def test_nothing_of_a_head_depends_on_the_test_rows(tmp_path: Path, made: Made, write_features: WriteFeatures) -> None:
    """With shuffled test labels, every chosen setting and all weights are the same."""
    store = write_features(tmp_path / "lt0", seed=0)
    labels = np.load(store / "test" / "labels.npy")
    np.save(store / "test" / "labels.npy", np.random.default_rng(5).permutation(labels))
    methods = ["logistic", "ncm", "tau", "crt", "lws", "bias", "fixed"]
    assert main(["head", ",".join(methods), str(store), "--runs", str(tmp_path), *QUICK, "--json"]) == 0
    for method in methods:
        record = json.loads((tmp_path / f"lt0-{method}" / "head.json").read_text())
        assert record["chosen"] == made.record(f"lt0-{method}")["chosen"]
        weights = (tmp_path / f"lt0-{method}" / "artifact" / "model.safetensors").read_bytes()
        assert weights == (made.runs / f"lt0-{method}" / "artifact" / "model.safetensors").read_bytes()


def test_the_page_of_a_comparison_shows_every_section(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(made.runs / "heads-lt0"), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert list(numbers) == ["scores", "tradeoff", "improvement", "distance", "coefficients", "sweeps"]
    record = made.record("lt0-crt")
    gains = [100 * (row["recall"] - row["base_recall"]) for row in record["classes"] if row["group"] == "few"]
    assert numbers["improvement"]["crt"]["gains"][:3] == pytest.approx(gains)
    assert "crt minus joint" in (made.runs / "heads-lt0" / "report.html").read_text()


def test_the_page_of_one_head_shows_both_splits(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(made.runs / "lt0-fixed"), "--output", str(page)]) == 0
    text = page.read_text()
    assert "validation, few" in text
    assert "neighbor 3" in text
    capsys.readouterr()
    assert main(["report", str(made.runs / "lt0-fixed"), "--data-path", "x"]) == 2
    assert "--data-path has no use for a head" in capsys.readouterr().err


def test_one_head_alone_is_not_compared_and_not_overwritten(
    tmp_path: Path, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["head", "ncm", str(made.stores[0]), "--runs", str(tmp_path), "--name", "mine"]
    assert main(words) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine-ncm"]
    assert main(words) == 2
    assert "mine-ncm exists already" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    (tmp_path / "mine-ncm" / "head.json").unlink()
    assert main([*words, "--overwrite"]) == 2
    assert "left alone" in capsys.readouterr().err


def test_several_seeds_of_one_store_are_compared(tmp_path: Path, made: Made) -> None:
    words = [str(made.stores[0]), "--runs", str(tmp_path), "--seeds", "0,3", "--baseline", "crt", *QUICK, "--json"]
    assert main(["head", "joint,crt", *words]) == 0
    result = json.loads((tmp_path / "heads-lt0" / "heads.json").read_text())
    assert result["baseline"] == "crt"
    assert len(result["units"]) == 2
    assert (tmp_path / "lt0-crt-seed3" / "artifact").is_dir()

"""Models that start from the weights of an artifact."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mntrain.config import ExperimentConfig, load_experiment
from mntrain.errors import ArtifactError, ConfigError
from mntrain.training.checked_run import CheckedRun, check_run
from mntrain.training.checkpoint import load_state
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions
from mntrain.training.stored_run import check_same_run

BreakOff = Callable[[ExperimentConfig, FitOptions, int], None]
TINY = ["--backbone.width", "0.1", "--meta_neighborhoods.entries", "8", "--data.train_limit", "64"]
TINY += ["--training.epochs", "1", "--training.batch_size", "32"]
ROWS = [
    "--data.train_limit",
    "64",
    "--training.epochs",
    "1",
    "--meta_neighborhoods.entries",
    "8",
    "--backbone.units",
    "8",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a plain classifier, and of plain regressors of two targets of one table."""
    runs = tmp_path_factory.mktemp("trained")
    fit(
        load_experiment("digits", [*TINY, "--family", "vanilla", "--name", "digits"]), FitOptions(runs=runs, quiet=True)
    )
    numbers = np.random.default_rng(0).normal(size=(120, 4)).round(3)
    table = "\n".join([",".join("abcd"), *(",".join(map(str, row)) for row in numbers)])
    (runs / "table.csv").write_text(table + "\n")
    fit(rows(runs, "--family", "vanilla", "--name", "rows"), FitOptions(runs=runs, quiet=True))
    return runs


def digits(*words: str) -> ExperimentConfig:
    return load_experiment("digits", [*TINY, "--name", "run", *words])


def rows(runs: Path, *words: str, target: str = "d") -> ExperimentConfig:
    data = ["--data.path", str(runs / "table.csv"), "--data.target_column", target]
    return load_experiment("uci", [*ROWS, *data, *words])


def weights(artifact: Path) -> dict[str, torch.Tensor]:
    return load_file(str(artifact / "model.safetensors"))


def started(config: ExperimentConfig) -> tuple[CheckedRun, dict[str, Any]]:
    checked = check_run(config)
    assert checked.trained_start is not None
    return checked, dict(checked.trained_start)


@pytest.mark.parametrize("family", ["meta_neighborhoods", "maxl", "vanilla"])
def test_any_family_starts_from_a_plain_network(family: str, trained: Path) -> None:
    artifact = trained / "digits" / "artifact"
    checked, start = started(digits("--family", family, "--training.start", str(artifact)))
    stored = weights(artifact)
    plain = checked.model.plain().state_dict()
    assert plain.keys() == stored.keys()
    assert all(torch.equal(plain[name], stored[name]) for name in stored)
    assert start["taken"] == len(stored)
    assert start["unused"] == start["notes"] == []
    assert len(start["new"]) == len(checked.model.state_dict()) - len(stored)
    if family == "meta_neighborhoods":
        assert start["new"] == ["raw_step_size", "dictionary.keys", "dictionary.value_logits"]


def test_a_frozen_network_trains_its_similarities_and_keeps_all_else_of_the_backbone(
    trained: Path, tmp_path: Path
) -> None:
    words = ["--family", "vanilla", "--training.start", str(trained / "digits" / "artifact")]
    similar = [*words, "--training.freeze", "network", "--backbone.similarity.mode", "static"]
    fit(digits(*similar), FitOptions(runs=tmp_path, quiet=True))
    before, after = weights(trained / "digits" / "artifact"), weights(tmp_path / "run" / "artifact")
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("backbone."))
    learned = [value for name, value in after.items() if name.endswith(".similarity")]
    assert len(learned) == 3
    assert not any(torch.equal(value, torch.ones_like(value)) for value in learned)
    assert not torch.equal(after["head.weight"], before["head.weight"])


def test_weights_that_the_artifact_lacks_are_not_frozen_as_they_were_drawn(trained: Path) -> None:
    words = ["--family", "vanilla", "--training.start", str(trained / "digits" / "artifact")]
    frozen = [*words, "--training.freeze", "backbone"]
    check_run(digits(*frozen))
    with pytest.raises(ConfigError, match=r"freeze is 'backbone', but \d+ weights .* untrained .*predictor\.first"):
        check_run(digits(*frozen, "--backbone.similarity.mode", "dynamic"))


def test_freezing_is_refused_where_a_family_moves_all_of_its_backbone(trained: Path) -> None:
    start = str(trained / "digits" / "artifact")
    config = digits("--family", "maxl", "--training.start", start, "--training.freeze", "backbone")
    with pytest.raises(ConfigError, match=r"training.freeze is 'backbone', but family 'maxl'.*leave it out"):
        check_run(config)


def test_a_regressor_starts_from_a_plain_one(trained: Path) -> None:
    artifact = trained / "rows" / "artifact"
    checked, start = started(rows(trained, "--training.start", str(artifact)))
    found, stored = checked.model.state_dict(), weights(artifact)
    assert all(torch.equal(found[name], stored[name]) for name in stored)
    assert set(start["new"]) == {"keys", "values", "raw_step_size"}

    checked, start = started(rows(trained, "--training.start", str(artifact), target="a"))
    last = max(name for name in stored if name.endswith("weight"))
    assert {last, last.replace("weight", "bias")} < set(start["new"])
    assert start["notes"][:2] == ["its targets were others (d)", "its columns were others (a, b, c)"]


def test_a_start_from_data_leaves_the_dictionary_of_the_artifact_alone(trained: Path, tmp_path: Path) -> None:
    fit(digits("--meta_neighborhoods.init", "paper", "--name", "mn"), FitOptions(runs=tmp_path, quiet=True))
    artifact = tmp_path / "mn" / "artifact"
    stored = weights(artifact)
    words = ("--training.start", str(artifact), "--meta_neighborhoods.init")
    placed = ["raw_step_size", "dictionary.keys", "dictionary.value_logits"]
    checked, start = started(digits(*words, "data"))
    assert start["new"] == placed
    assert start["notes"][0].startswith("its dictionary is placed anew, since meta_neighborhoods.init is data")
    found = checked.model.state_dict()
    assert found["raw_step_size"].item() == 0
    assert torch.equal(found["head.weight"], stored["head.weight"])
    checked, start = started(digits(*words, "paper"))
    assert start["new"] == start["notes"] == []
    assert all(torch.equal(checked.model.state_dict()[name], stored[name]) for name in placed)


def test_a_backbone_trained_in_part_needs_a_warm_up_before_keys_are_taken_from_it(trained: Path) -> None:
    words = ["--training.start", str(trained / "digits" / "artifact"), "--backbone.ifilm", "true"]
    words += ["--meta_neighborhoods.init", "data", "--training.epochs", "4"]
    with pytest.raises(ConfigError, match=r"leaves \d+ weights of the backbone untrained.*\.warm_up, such as 0\.75"):
        check_run(digits(*words))
    checked = check_run(digits(*words, "--meta_neighborhoods.warm_up", "0.5"))
    assert checked.start is not None
    assert checked.start.epoch == 2


def test_a_run_tells_and_keeps_what_it_started_from(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], break_off: BreakOff
) -> None:
    artifact = tmp_path / "start"
    shutil.copytree(trained / "digits" / "artifact", artifact)
    words = ["--training.epochs", "2", "--training.keep_every", "1", "--training.start", str(artifact)]
    options = FitOptions(runs=tmp_path)
    break_off(digits(*words), options, 1)
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("start  ")]
    assert len(told) == 1
    assert f"tensors of {artifact} (vanilla); new: raw_step_size, dictionary.keys, dictionary.value_logits" in told[0]
    untrained = load_file(str(tmp_path / "run" / "checkpoints" / "epoch-0000.safetensors"))
    assert all(torch.equal(untrained[name], value) for name, value in weights(artifact).items())

    # The checkpoint has the weights: the artifact may be gone, or have moved.
    resumed = FitOptions(runs=tmp_path, resume=True, quiet=True)
    moved = artifact.rename(tmp_path / "moved")
    result = fit(digits(*words), resumed)
    assert result is not None
    record = json.loads((tmp_path / "run" / "data.json").read_text())
    assert (
        result["trained_start"]
        == record["training"]["start"]
        == load_state(tmp_path / "run" / "checkpoints" / "last.pt").trained_start
    )
    words[-1] = str(moved)
    assert fit(digits(*words), resumed) is not None
    split = json.loads((tmp_path / "run" / "split.json").read_text())["sha256"]
    check_same_run(tmp_path / "run", digits(*words), split)

    values = weights(moved)
    values["head.weight"] += 1
    save_file(values, str(moved / "model.safetensors"))
    without = digits(*words[:-2])
    for config, message in (
        (digits(*words), "started from other weights"),
        (without, r"started from .*training\.start is null now"),
    ):
        with pytest.raises(ConfigError, match=message):
            fit(config, resumed)
        with pytest.raises(ConfigError, match=message):
            check_same_run(tmp_path / "run", config, split)


def test_other_classes_leave_head_and_dictionary_untrained(trained: Path, tmp_path: Path) -> None:
    """Of as many classes in another order, too: a head would answer with wrong names."""
    artifact = tmp_path / "artifact"
    shutil.copytree(trained / "digits" / "artifact", artifact)
    config = json.loads((artifact / "config.json").read_text())
    config["labels"] = config["labels"][::-1]
    config["input"] |= {"height": 8}
    config["preprocessing"]["mean"] = [0.1]
    config["split"]["sha256"] = "other"
    (artifact / "config.json").write_text(json.dumps(config))
    checked, start = started(digits("--training.start", str(artifact)))
    assert "head.weight" in start["new"]
    assert "head.weight" in start["unused"]
    assert not torch.equal(checked.model.state_dict()["head.weight"], weights(artifact)["head.weight"])
    assert [note.split(" (")[0] for note in start["notes"]] == [
        "its classes were others",
        "its inputs were scaled by other means and deviations",
        "its data or split was another, so it may have been trained on test examples of this run",
    ]


def test_what_does_not_fit_is_told_or_refused_before_anything_is_written(trained: Path, tmp_path: Path) -> None:
    artifact = str(trained / "digits" / "artifact")
    _, start = started(digits("--training.start", artifact, "--backbone.ifilm", "true"))
    assert 0 < start["taken"] < len(start["new"])
    with pytest.raises(ConfigError, match="no weight has name and shape"):
        check_run(digits("--training.start", artifact, "--backbone.width", "0.2"))
    options = FitOptions(runs=tmp_path, quiet=True)
    with pytest.raises(ConfigError, match=r"family 'vanilla' on backbone .* no weight has name and shape"):
        fit(rows(trained, "--training.start", artifact, "--name", "run"), options)
    with pytest.raises(ArtifactError, match="There is no artifact folder"):
        fit(digits("--training.start", str(tmp_path / "none")), options)
    with pytest.raises(ConfigError, match=r"training\.start is ' '"):
        digits("--training.start", " ")
    assert not (tmp_path / "run").exists()

"""Reading of artifacts, and messages about wrong ones."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mntrain.artifact import load_artifact
from mntrain.errors import ArtifactError


@pytest.fixture
def artifact(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "meta_neighborhoods" / "artifact", tmp_path / "artifact"))


def edit(artifact: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = artifact / "config.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def test_an_artifact_names_family_labels_input_and_versions(artifact: Path) -> None:
    values = json.loads((artifact / "config.json").read_text())
    assert values["family"] == "meta_neighborhoods"
    assert values["labels"] == [str(digit) for digit in range(10)]
    assert values["input"] == {"channels": 1, "height": 8, "width": 8, "color": "L"}
    assert set(values["versions"]) >= {"python", "torch", "mn-runtime"}
    names = {item.name for item in artifact.iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors", "samples.safetensors"}


@pytest.mark.parametrize("kind", [str, Path])
def test_loading_gives_a_frozen_model_in_eval_mode(artifact: Path, kind: type[str | Path]) -> None:
    loaded = load_artifact(kind(artifact))
    assert loaded.path == artifact
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.samples.images.dtype == np.uint8
    assert len(loaded.samples) == 256


def test_an_artifact_of_an_earlier_version_has_the_defaults_of_newer_fields(artifact: Path) -> None:
    def older(values: dict[str, Any]) -> None:
        experiment = values["experiment"]
        for field in ("auxiliary", "key_init", "key_range", "values", "learn_step_size"):
            del experiment["meta_neighborhoods"][field]
        for field in ("optimizer", "momentum", "drop_every", "patience", "keep_every", "accumulate", "compile"):
            del experiment["training"][field]

    now = load_artifact(artifact)
    edit(artifact, older)
    loaded = load_artifact(artifact)
    assert loaded.config.experiment == now.config.experiment
    images = torch.from_numpy(now.samples.images[:8])
    with torch.inference_mode():
        expected, found = (one.model(one.preprocessing(images)).logits for one in (now, loaded))
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


def test_a_missing_or_wrong_folder_is_explained(tmp_path: Path, artifact: Path) -> None:
    with pytest.raises(ArtifactError, match="There is no artifact folder"):
        load_artifact(tmp_path / "none")
    (artifact / "config.json").unlink()
    with pytest.raises(ArtifactError, match=r"has no config\.json"):
        load_artifact(artifact)


def test_another_version_is_explained(artifact: Path) -> None:
    edit(artifact, lambda values: values.update(schema=99))
    with pytest.raises(ArtifactError, match=r"schema 99.*written by mn-runtime .*reads schema 1 and 2"):
        load_artifact(artifact)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.pop("labels"), "'labels' is missing"),
        (lambda v: v["input"].pop("height"), "'height' is missing"),
        (lambda v: v["experiment"].update(family="unheard"), "unheard"),
        (lambda v: v["experiment"]["backbone"].update(name="resnet9999"), "resnet9999"),
        (lambda v: v["preprocessing"].update(std=[0.0]), "std"),
        (lambda v: v.update(input=3), "not a valid artifact"),
        (lambda v: v["input"].update(channels=-1), "input is -1"),
        (lambda v: v["input"].update(height=10**9), "input is 1 x 1000000000"),
        (lambda v: v["preprocessing"].update(mean=[10**400]), "not a valid artifact"),
        (lambda v: v["preprocessing"].update(mean=[0.0] * 3, std=[1.0] * 3), "3 channel"),
        (lambda v: v["experiment"]["meta_neighborhoods"].update(entries=10**12), "do not fit"),
        (lambda v: v.update(split={}), "sha256"),
        (lambda v: v.update(labels="0123456789"), "expected a list"),
        (lambda v: v.update(labels=["a"] * 10), "Several classes are called 'a'"),
        (lambda v: v["labels"].__setitem__(0, " "), "called ' '"),
        (lambda v: v["labels"].__setitem__(0, "\ud800"), "called"),
        (lambda v: v.update(metrics={"a": float("nan")}), "NaN, which is not JSON"),
        (lambda v: v.update(schema=4, versions=[]), "schema 4"),
    ],
)
def test_a_wrong_configuration_is_explained(
    artifact: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    edit(artifact, change)
    with pytest.raises(ArtifactError, match=words):
        load_artifact(artifact)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00\x01", "[" * 100_000])
def test_a_configuration_that_is_not_json_is_explained(artifact: Path, text: str) -> None:
    (artifact / "config.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"config\.json"):
        load_artifact(artifact)


@pytest.mark.parametrize("name", ["model.safetensors", "samples.safetensors"])
@pytest.mark.parametrize("size", [0, 5, 400])
def test_a_truncated_file_is_named(artifact: Path, name: str, size: int) -> None:
    file = artifact / name
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ArtifactError, match=name):
        load_artifact(artifact)


@pytest.mark.parametrize("name", ["model.safetensors", "samples.safetensors"])
def test_a_missing_file_is_named(artifact: Path, name: str) -> None:
    (artifact / name).unlink()
    with pytest.raises(ArtifactError, match=rf"{name} is missing"):
        load_artifact(artifact)


def rewrite(artifact: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    values = load_file(str(artifact / "model.safetensors"))
    change(values)
    save_file(values, str(artifact / "model.safetensors"))


def test_weights_that_do_not_fit_are_listed(artifact: Path) -> None:
    def change(values: dict[str, torch.Tensor]) -> None:
        del values["head.scale"]
        values["stray"] = torch.zeros(1)
        values["dictionary.keys"] = torch.zeros(3, 96)
        values["raw_step_size"] = torch.tensor(float("nan"))

    rewrite(artifact, change)
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact)
    for words in ("head.scale is missing", "stray is not part", "dictionary.keys is [3, 96]", "not finite"):
        assert words in str(caught.value)


def test_weights_of_another_precision_are_refused(artifact: Path) -> None:
    rewrite(artifact, lambda values: values.update({"head.scale": values["head.scale"].double() * 1e200}))
    with pytest.raises(ArtifactError, match=r"head\.scale is torch\.float64, expected torch\.float32"):
        load_artifact(artifact)


@pytest.mark.parametrize("label", [-1, 99])
def test_sample_labels_outside_the_classes_are_refused(artifact: Path, label: int) -> None:
    file = artifact / "samples.safetensors"
    values = load_file(str(file))
    values["labels"][3] = label
    save_file(values, str(file))
    with pytest.raises(ArtifactError, match="names 10 classes"):
        load_artifact(artifact)

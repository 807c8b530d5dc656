"""Features of images: values, splits, views, going on after a kill, and stores of something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main
from mntrain.data.loading import load_images
from mntrain.errors import ArtifactError, ConfigError, DataError
from mntrain.feature_store.computing import FeatureComputation
from mntrain.feature_store.partial_store import PartialStore, partial_folder, writing_lock
from mntrain.feature_store.session import FeatureOptions, write_features
from mntrain.feature_store.store import open_store
from mntrain.networks.frozen_network import TorchBody
from mntrain.networks.options import NetworkOptions


def options(artifact: Path, store: Path, **given: Any) -> FeatureOptions:
    return FeatureOptions(network=NetworkOptions(source=str(artifact)), store=store, **given)


def test_features_and_classifier_are_those_of_the_model_and_splits_those_of_its_run(
    dot_artifact: Path, tmp_path: Path
) -> None:
    report = write_features(options(dot_artifact, tmp_path / "store"))
    store, artifact = open_store(tmp_path / "store"), load_artifact(dot_artifact)
    data = load_images(artifact.config.experiment.data)
    assert report.to_json()["counts"] == data.split.counts
    assert store.label_names == data.label_names
    assert store.data["split"]["sha256"] == artifact.config.split["sha256"]
    for name in ("train", "validation", "test"):
        np.testing.assert_array_equal(store.part(name).labels, data.part(name).labels)
        with torch.no_grad():
            inputs = artifact.preprocessing(torch.from_numpy(data.part(name).images))
            assert isinstance(artifact.model.backbone, torch.nn.Module)
            expected = artifact.model.backbone(inputs)
            unadapted = artifact.model.plain()(inputs).logits
        np.testing.assert_allclose(store.part(name).features, expected, atol=1e-5)
        assert store.classifier is not None
        np.testing.assert_allclose(store.classifier.logits(store.part(name).features), unadapted, atol=1e-4)
    samples = load_file(tmp_path / "store" / "samples.safetensors")
    assert samples["images"].shape == (256, 1, 8, 8)
    network = report.store.network
    assert network.pixels is not None
    from mntrain.networks.opening import reopen_network

    np.testing.assert_allclose(reopen_network(network).embed(samples["images"]), samples["features"], atol=1e-5)
    assert not partial_folder(tmp_path / "store").exists()


def test_a_killed_computation_goes_on_with_the_same_values(
    dot_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: dict[str, Any] = {"crops": 2, "seed": 3, "augmentation": {"flip": True}, "batch": 100}
    write_features(options(dot_artifact, tmp_path / "whole", **views))
    batches: list[int] = []
    compute = FeatureComputation._batch

    def killed(self: FeatureComputation, split: str, row: int) -> Any:
        batches.append(row)
        if len(batches) == 16:  # within the second view
            raise KeyboardInterrupt
        return compute(self, split, row)

    monkeypatch.setattr(FeatureComputation, "_batch", killed)
    with pytest.raises(KeyboardInterrupt):
        write_features(options(dot_artifact, tmp_path / "store", **views))
    with pytest.raises(DataError, match="no feature store, or it is not finished"):
        open_store(tmp_path / "store")
    done = json.loads((partial_folder(tmp_path / "store") / "progress.json").read_text())["done"]
    assert done == {"train": batches[-1], "validation": 0, "test": 0}
    with pytest.raises(ConfigError, match=r"views\.seed \(3 → 4\)"):
        write_features(options(dot_artifact, tmp_path / "store", **views | {"seed": 4}))
    report = write_features(options(dot_artifact, tmp_path / "store", **views))
    assert batches[16] == batches[15], "the batch that was broken off, and none before it"
    assert report.computed == 1294 * 2 - done["train"] + 144 + 359
    assert open_store(tmp_path / "store").sha256 == open_store(tmp_path / "whole").sha256


def test_views_are_the_image_itself_and_changed_ones(dot_artifact: Path, tmp_path: Path) -> None:
    one = write_features(options(dot_artifact, tmp_path / "one")).store
    three = write_features(options(dot_artifact, tmp_path / "three", crops=3)).store
    rows = len(one.train)
    assert len(three.train) == 3 * rows
    np.testing.assert_array_equal(three.counts, one.counts)
    np.testing.assert_allclose(three.train.features[:rows], one.train.features, atol=1e-6)
    for view in (1, 2):
        changed = np.abs(three.train.features[view * rows : (view + 1) * rows] - one.train.features).max(1) > 1e-3
        assert changed.mean() > 0.5
    np.testing.assert_array_equal(three.test.features, one.test.features)
    with pytest.raises(ConfigError, match="all views would be equal"):
        write_features(options(dot_artifact, tmp_path / "x", crops=2, augmentation={"crop_padding": 0}))


def test_a_finished_store_is_kept_and_another_is_refused(dot_artifact: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = write_features(options(dot_artifact, store))
    again = write_features(options(dot_artifact, store))
    assert (again.computed, again.store.sha256) == (None, first.store.sha256)
    assert "was there already" in again.lines()[0]
    other = options(dot_artifact, store, data={"split_seed": 5})
    with pytest.raises(ConfigError, match=r"data\.split_seed \(0 → 5\).*--overwrite"):
        write_features(other)
    assert open_store(store).sha256 == first.store.sha256
    assert write_features(replace(other, overwrite=True)).store.sha256 != first.store.sha256
    assert {item.name for item in tmp_path.iterdir()} == {"store"}
    (store / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        write_features(options(dot_artifact, store, overwrite=True))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "photo.jpg").touch()
    with pytest.raises(ConfigError, match="is no feature store"):
        write_features(options(dot_artifact, foreign, overwrite=True))


def test_two_processes_do_not_write_one_store(dot_artifact: Path, tmp_path: Path) -> None:
    with writing_lock(tmp_path / "store"), pytest.raises(ConfigError, match="Another process writes"):
        write_features(options(dot_artifact, tmp_path / "store"))


def test_features_that_are_not_finite_name_the_image(
    dot_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = TorchBody.__call__

    def spoiled(self: TorchBody, inputs: torch.Tensor) -> torch.Tensor:
        features = call(self, inputs).clone()
        features[1:2, 2] = torch.nan
        return features

    monkeypatch.setattr(TorchBody, "__call__", spoiled)
    with pytest.raises(DataError, match=r"not finite for image \d+ of the train split"):
        write_features(options(dot_artifact, tmp_path / "store"))


def test_a_full_disk_is_told_before_work(dot_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*words: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(DataError, match="No space left on device; make room"):
        write_features(options(dot_artifact, tmp_path / "store"))


def test_images_that_do_not_fit_into_memory_are_told(
    dot_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(config: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("mntrain.feature_store.data_choice.load_images", full)
    with pytest.raises(DataError, match=r"do not fit into memory.*--data\.image_size"):
        write_features(options(dot_artifact, tmp_path / "store"))


def test_the_command_prints_a_summary_or_json(
    dot_artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["features", str(dot_artifact), str(tmp_path / "store")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("rows/s")
    assert "1,294 train, 144 validation, 359 test; 10 classes" in lines[2]
    assert lines[3] == "classifier: the network's own, 10 of 10 classes by name"
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["computed"], printed["classifier"], printed["crops"]) == (0, True, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--scale", "255"], "--scale is given"),
        (["--pooling", "mean"], "--pooling is 'mean', but .* is an artifact"),
        (["--data.nested", "true"], "data.nested is True, but data.source 'digits' has no use"),
        (["--training.epochs", "2"], "--training.epochs is no option of `mntrain features`"),
        (["--crops", "0"], "--crops is 0"),
        (["--batch", "0"], "--batch is 0"),
    ],
)
def test_options_that_cannot_be(
    dot_artifact: Path, tmp_path: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    assert main(["features", str(dot_artifact), str(tmp_path / "store"), *words]) == 2
    assert re.search(sentence, capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_networks_that_bring_no_data_ask_for_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mntrain.feature_store.data_choice import choose_data
    from mntrain.networks.image_processor import default_rule
    from mntrain.networks.opened import OpenedNetwork

    rule = default_rule(object())
    body = TorchBody(module=torch.nn.Flatten())
    opened = OpenedNetwork(kind="transformers", name="a/b", sha256="0", input=rule, body=body)
    with pytest.raises(ConfigError, match=r"--data\.path is not given"):
        choose_data(opened, {})
    with pytest.raises(ConfigError, match="holds rows"):
        choose_data(opened, {"source": "spiral"})
    config = choose_data(opened, {"path": "photos"})
    assert (config.source, config.image_size, config.image_fit, config.color) == ("images", 224, "crop", "RGB")
    assert choose_data(opened, {"path": "photos", "image_size": None}).image_size is None
    tail = choose_data(opened, {"path": "photos", "imbalance": {"kind": "exponential", "ratio": 20.0}}).imbalance
    assert (tail.kind, tail.ratio) == ("exponential", 20.0)
    with pytest.raises(ConfigError, match=r"data\.pat is no field; did you mean path\?"):
        choose_data(opened, {"path": "photos", "pat": "x"})


def test_a_long_tail_is_drawn_of_the_training_split_alone(dot_artifact: Path, tmp_path: Path) -> None:
    words = ["--data.imbalance.kind", "exponential", "--data.imbalance.ratio", "20"]
    assert main(["features", str(dot_artifact), str(tmp_path / "store"), *words]) == 0
    store = open_store(tmp_path / "store")
    assert store.counts.tolist() == sorted(store.counts.tolist(), reverse=True)
    assert store.counts[9] == store.counts[0] // 20
    assert [len(store.validation), len(store.test)] == [144, 359]


def test_an_artifact_of_rows_is_refused(tmp_path: Path) -> None:
    from mntrain.config import load_experiment
    from mntrain.training.fit import fit
    from mntrain.training.run_folder import FitOptions

    words = ["--family", "vanilla", "--name", "rows", "--training.epochs", "1"]
    fit(load_experiment("spiral", words), FitOptions(runs=tmp_path, quiet=True))
    with pytest.raises(ArtifactError, match="holds a model of rows"):
        write_features(options(tmp_path / "rows" / "artifact", tmp_path / "store"))


def test_a_damaged_file_of_a_begun_store_is_told(tmp_path: Path) -> None:
    labels = {name: np.zeros(4, np.int64) for name in ("train", "validation", "test")}
    with writing_lock(tmp_path / "store"):
        PartialStore(tmp_path / "store", {}, labels, 3)
        with pytest.raises(DataError, match="is damaged"):
            PartialStore(tmp_path / "store", {}, labels, 2)
        (partial_folder(tmp_path / "store") / "progress.json").write_text("{")
        with pytest.raises(DataError, match="cannot be read"):
            PartialStore(tmp_path / "store", {}, labels, 3)

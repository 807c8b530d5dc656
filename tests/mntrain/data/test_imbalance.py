"""Long-tailed training splits: sizes of classes, what is drawn, and what is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mntrain.config import ExperimentConfig, load_experiment
from mntrain.data.config import DataConfig
from mntrain.data.imbalance.config import ImbalanceConfig
from mntrain.data.imbalance.sizes import class_sizes
from mntrain.data.loading import load_data, load_images
from mntrain.data.summary.summarize import summarize
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError


def config_of(**fields: Any) -> ImbalanceConfig:
    return ImbalanceConfig(**({"kind": "exponential"} | fields))


def available(*counts: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(counts, dtype=np.int64)


def test_cifar_10_lt_of_ratio_100_has_the_published_sizes() -> None:
    sizes = class_sizes(config_of(ratio=100), available(*[5000] * 10), "image")
    assert sizes.tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


def test_explicit_sizes_are_reached_at_both_ends() -> None:
    sizes = class_sizes(config_of(largest=280, smallest=5), available(*[280] * 100), "image")
    assert (sizes[0], sizes[-1], sizes.sum()) == (280, 5, 6858)


def test_pareto_sizes_are_quantiles_of_that_distribution() -> None:
    """Oracle: with power 6 the share of classes above a size is (1 + x)^-6 of the stretched size x."""
    sizes = class_sizes(config_of(kind="pareto", largest=1280, smallest=5), available(*[1300] * 1000), "image")
    assert (sizes[0], sizes[-1]) == (1280, 5)
    greatest = 1000 ** (1 / 6) - 1
    for size in (20, 100, 400):
        share = (1 + greatest * (size - 5) / 1275) ** -6
        assert (sizes >= size).mean() == pytest.approx(share, abs=2e-3)


@given(
    counts=st.lists(st.integers(1, 60), min_size=2, max_size=8),
    kind=st.sampled_from(["exponential", "pareto"]),
    share=st.floats(0, 1),
)
def test_no_class_gets_more_than_it_has_or_nothing(counts: list[int], kind: str, share: float) -> None:
    ratio = 1 + share * (max(counts) - 1)
    sizes = class_sizes(config_of(kind=kind, ratio=ratio), available(*counts), "image")
    assert (sizes >= 1).all()
    assert (sizes <= counts).all()


def test_a_tail_changes_neither_validation_nor_test() -> None:
    whole = load_images(DataConfig())
    tailed = load_images(DataConfig(imbalance=config_of(ratio=10)))
    for name in ("validation", "test"):
        np.testing.assert_array_equal(tailed.split.indices[name], whole.split.indices[name])
    counts = np.bincount(tailed.train.labels)
    assert counts[0] == pytest.approx(10 * counts[-1], abs=10)
    assert set(tailed.split.indices["train"]) < set(whole.split.indices["train"])


def test_a_steeper_tail_keeps_examples_of_a_flatter_one() -> None:
    steep, flat = (load_images(DataConfig(imbalance=config_of(ratio=ratio))) for ratio in (50, 5))
    assert set(steep.split.indices["train"]) < set(flat.split.indices["train"])


@pytest.mark.parametrize("seed", [0, 1])
def test_examples_of_a_class_are_drawn_from_all_of_it(seed: int) -> None:
    whole = load_images(DataConfig(split_seed=seed))
    tailed = load_images(DataConfig(split_seed=seed, imbalance=config_of(ratio=10)))
    available = np.asarray(whole.split.indices["train"])[whole.train.labels == 9]
    drawn = np.asarray(tailed.split.indices["train"])[tailed.train.labels == 9]
    assert set(drawn) < set(available)
    assert set(drawn) != set(available[: len(drawn)])


def test_shuffled_order_depends_on_the_seed_alone() -> None:
    def sizes(seed: int) -> list[int]:
        data = load_images(DataConfig(split_seed=seed, imbalance=config_of(ratio=10, order="shuffled")))
        return list(np.bincount(data.train.labels))

    assert sizes(1) == sizes(1) != sizes(2)
    assert sizes(1) != sorted(sizes(1), reverse=True)


def test_the_tail_is_recorded() -> None:
    config = DataConfig(imbalance=config_of(kind="pareto", ratio=10))
    data = load_images(config)
    stored = json.loads(json.dumps(data.split.to_json()))["imbalance"]
    assert (stored["kind"], stored["ratio"], stored["power"]) == ("pareto", 10, 6)
    assert list(stored["counts"].values()) == np.bincount(data.train.labels).tolist()
    record = summarize(data, config)
    assert record["splits"]["train"]["classes"] == stored["counts"]
    assert "train is long-tailed: pareto of power 6" in record["split_rule"]
    assert any("beyond data.imbalance" in entry["reason"] for entry in record["ignored"])


def test_rows_with_classes_become_long_tailed_and_values_do_not(tmp_path: Path) -> None:
    rows = "\n".join(f"{number},{number % 7},{'ab'[number % 2]}" for number in range(200))
    (tmp_path / "t.csv").write_text(f"x,value,kind\n{rows}\n")
    common: dict[str, Any] = {"source": "table", "path": str(tmp_path / "t.csv"), "imbalance": config_of(ratio=8)}
    data = load_data(DataConfig(target_column="kind", **common))
    counts = np.bincount(data.train.targets)
    assert counts.tolist() == [72, 9]
    with pytest.raises(ConfigError, match="targets are values"):
        load_data(DataConfig(target_column="value", **common))


def test_validation_from_test_leaves_training_whole() -> None:
    before, after = load_images(DataConfig()), load_images(DataConfig(validation_from="test", validation_fraction=0.5))
    assert after.split.counts["train"] == before.split.counts["train"] + before.split.counts["validation"]
    parts = [after.split.indices[name] for name in ("train", "validation", "test")]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1797))
    assert abs(after.split.counts["validation"] - after.split.counts["test"]) <= 1
    rule = summarize(after, DataConfig(validation_from="test", validation_fraction=0.5))["split_rule"]
    assert "validation is 0.5 of test" in rule


def test_validation_from_test_takes_rows_of_a_test_file(tmp_path: Path) -> None:
    for name, first in (("train", 0), ("test", 1000)):
        rows = "\n".join(f"{first + number},{'ab'[number % 2]}" for number in range(40))
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{rows}\n")
    words = ["--data.path", str(tmp_path), "--data.target_column", "y", "--data.target", "class"]
    data = load_data(load_experiment("table", [*words, "--data.validation_from", "test"]).data)
    assert isinstance(data, TableData)
    assert sorted(data.train.inputs[:, 0].tolist()) == list(range(40))
    held_out = [*data.validation.inputs[:, 0], *data.test.inputs[:, 0]]
    assert sorted(held_out) == list(range(1000, 1040))
    assert dict(data.split.origins) == {"train": "train", "validation": "test", "test": "test"}


def test_validation_from_test_works_with_a_test_split_of_the_source(shared_data: Path) -> None:
    config = load_experiment("tiny-imagenet-100-lt", ["--data.path", str(shared_data / "tiny-imagenet-32-100classes")])
    data = load_images(config.data)
    counts = np.bincount(data.train.labels)
    assert (counts[0], counts[-1], len(data.train)) == (280, 5, 6858)
    assert np.bincount(data.validation.labels).tolist() == np.bincount(data.test.labels).tolist() == [25] * 100
    assert dict(data.split.origins) == {"train": "train", "validation": "test", "test": "test"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ratio": 0.5}, "at least 1"),
        ({"ratio": float("nan")}, "at least 1"),
        ({}, "neither is given"),
        ({"ratio": 10, "smallest": 2}, "both are given"),
        ({"largest": 5, "smallest": 9}, "at most data.imbalance.largest"),
        ({"smallest": 0}, "from 1 on"),
        ({"ratio": 10, "power": 3.0}, "has no power"),
        ({"kind": "none", "ratio": 10}, "kind is 'none'"),
        ({"kind": "linear"}, "one of 'none', 'exponential', 'pareto'"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config_of(**fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ratio": 1000}, "the smallest would get none; use a ratio of at most 131"),
        ({"ratio": 2, "largest": 5000}, "no class has more than"),
        ({"smallest": 500}, "use at most"),
    ],
)
def test_sizes_that_the_data_cannot_have_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_images(DataConfig(imbalance=config_of(**fields)))


def test_a_limit_beside_a_tail_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.train_limit is 100 and data\.imbalance\.kind 'exponential'"):
        DataConfig(train_limit=100, imbalance=config_of(ratio=10))


def test_configurations_come_back_and_old_ones_have_no_tail() -> None:
    words = ["--data.imbalance.kind", "pareto", "--data.imbalance.ratio", "20", "--data.validation_from", "test"]
    config = load_experiment("digits", words)
    plain = json.loads(json.dumps(config.to_dict()))
    assert ExperimentConfig.from_dict(plain) == config
    for name in ("imbalance", "validation_from", "lists", "class_names", "missing_images"):
        del plain["data"][name]
    del plain["training"]["sampling"]
    old = ExperimentConfig.from_dict(plain)
    assert (old.data, old.training.sampling) == (DataConfig(), "instance")

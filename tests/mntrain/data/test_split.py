import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mntrain.data.config import DataConfig
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.loading import load_images
from mntrain.data.split import split_images
from mntrain.errors import ConfigError, DataError


def image_set(labels: list[int]) -> ImageSet:
    """Each image holds its own position, so that a mixed-up row shows."""
    position = np.arange(len(labels), dtype=np.uint16)
    images = np.stack([position % 256, position // 256], axis=1).astype(np.uint8).reshape(-1, 1, 1, 2)
    return ImageSet(images=images, labels=np.array(labels, dtype=np.int64))


def source(labels: list[int], **others: list[int]) -> SourceImages:
    splits = {"train" if others else "all": image_set(labels)}
    splits |= {name: image_set(values) for name, values in others.items()}
    top = max(max(part.labels) for part in splits.values())
    return SourceImages(splits=splits, label_names=tuple(f"class{n}" for n in range(int(top) + 1)))


@given(
    counts=st.lists(st.integers(20, 60), min_size=2, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    validation=st.floats(0.1, 0.4),
    test=st.floats(0.1, 0.4),
)
def test_splits_cover_everything_once_keep_rows_together_and_are_stratified(
    counts: list[int], seed: int, validation: float, test: float
) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts)).tolist()
    config = DataConfig(split_seed=seed, validation_fraction=validation, test_fraction=test)
    data = split_images(source(labels), config)
    indices = data.split.indices
    assert sorted(np.concatenate(list(indices.values())).tolist()) == list(range(len(labels)))
    for name, positions in indices.items():
        part = data.part(name)
        stored = part.images[:, 0, 0, 0].astype(int) + 256 * part.images[:, 0, 0, 1].astype(int)
        assert stored.tolist() == positions.tolist()
        assert part.labels.tolist() == [labels[i] for i in positions]
    for label, count in enumerate(counts):
        assert abs((data.test.labels == label).sum() - test * count) <= 2


def test_the_same_seed_gives_the_same_split_and_another_seed_another() -> None:
    first, again, other = (load_images(DataConfig(split_seed=seed)).split.to_json() for seed in (1, 1, 2))
    assert first == again
    assert first["sha256"] != other["sha256"]


def test_digest_notices_a_changed_pixel() -> None:
    labels = [0, 1] * 20
    before = split_images(source(labels), DataConfig()).split.sha256
    changed = source(labels)
    changed.splits["all"].images[3, 0, 0, 1] ^= 1
    assert split_images(changed, DataConfig()).split.sha256 != before


def test_limit_takes_training_images_only_and_stays_stratified() -> None:
    full, limited = load_images(DataConfig()), load_images(DataConfig(train_limit=200))
    assert limited.split.counts == {**full.split.counts, "train": 200}
    for name in ("validation", "test"):
        np.testing.assert_array_equal(limited.split.indices[name], full.split.indices[name])
    assert set(limited.split.indices["train"]) <= set(full.split.indices["train"])
    assert np.bincount(limited.train.labels).min() >= 18


def test_own_splits_of_the_source_are_kept() -> None:
    data = split_images(source([0, 1] * 20, test=[1, 0, 1], validation=[0, 1]), DataConfig())
    assert data.split.counts == {"train": 40, "validation": 2, "test": 3}
    assert data.split.origins == {"train": "train", "validation": "validation", "test": "test"}
    assert split_images(source([0, 1] * 20, test=[1, 0]), DataConfig()).split.origins["validation"] == "train"


def test_record_is_json_and_leads_back_to_the_images() -> None:
    data = split_images(source([0, 1] * 20), DataConfig())
    record = json.loads(json.dumps(data.split.to_json()))
    assert record["splits"]["test"]["count"] == len(data.test) == 8
    assert record["splits"]["test"]["source_split"] == "all"
    assert record["splits"]["test"]["indices"] == data.test.images[:, 0, 0, 0].tolist()


@pytest.mark.parametrize(
    ("labels", "fields", "error", "parts"),
    [
        ([0] * 20 + [1], {}, DataError, ["'class1'", "single image"]),
        ([0, 1] * 2, {"test_fraction": 0.1}, DataError, ["data.test_fraction is 0.1", "no test image"]),
        ([0, 1] * 20, {"train_limit": 30}, ConfigError, ["train_limit is 30", "only 29"]),
        ([0, 1] * 20, {"train_limit": 1}, ConfigError, ["train_limit is 1", "2 classes"]),
        ([0] * 20, {}, DataError, ["1 class(es)", "at least 2"]),
    ],
)
def test_classes_too_small_to_split_are_explained(
    labels: list[int], fields: dict[str, float], error: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(error) as caught:
        split_images(source(labels), DataConfig(**fields))  # type: ignore[arg-type]
    for part in parts:
        assert part in str(caught.value)


def test_test_labels_without_training_examples_are_refused() -> None:
    with pytest.raises(DataError, match=r"test split holds classes that have no training image: 'class2'"):
        split_images(source([0, 1] * 20, test=[2, 0]), DataConfig())


@pytest.mark.parametrize(
    ("images", "labels", "part"),
    [
        (np.zeros((2, 1, 3, 3), np.float32), np.zeros(2, np.int64), "float32"),
        (np.zeros((2, 3, 3), np.uint8), np.zeros(2, np.int64), "[2, 3, 3]"),
        (np.zeros((2, 1, 3, 3), np.uint8), np.zeros(3, np.int64), "[2], one for each image"),
        (np.zeros((2, 1, 3, 3), np.uint8), np.zeros(2, np.float64), "float64"),
        (np.zeros((0, 1, 3, 3), np.uint8), np.zeros(0, np.int64), "at least one image"),
    ],
)
def test_wrong_arrays_are_refused(images: np.ndarray, labels: np.ndarray, part: str) -> None:
    with pytest.raises(DataError) as caught:
        ImageSet(images=images, labels=labels)
    assert part in str(caught.value)

"""Test equal examples: counts within and across splits, contradictions, and the three settings of data.leaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mntrain.data.config import DataConfig
from mntrain.data.duplicates import example_keys, find_duplicates
from mntrain.data.images import ImageSet, SourceImages
from mntrain.data.leaks import describe_leaks
from mntrain.data.loading import load_data
from mntrain.data.split import split_images
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError, DataError


def image_set(values: list[int], labels: list[int]) -> ImageSet:
    images = np.array(values, np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8)
    return ImageSet(images=images, labels=np.array(labels))


def test_equal_images_are_counted_within_and_across_splits_whatever_their_label() -> None:
    source = SourceImages(
        splits={
            "train": image_set([1, 2, 2, 3, 4, 3], [0, 1, 0, 1, 0, 1]),
            "validation": image_set([9, 3], [0, 1]),
            "test": image_set([2, 2, 7, 9, 4], [0, 1, 0, 1, 1]),
        },
        label_names=("cat", "dog"),
        names={
            "train": tuple(f"train/{letter}.png" for letter in "abcdef"),
            "validation": ("valid/a.png", "valid/b.png"),
            "test": tuple(f"test/{letter}.png" for letter in "abcde"),
        },
    )
    data = split_images(source, DataConfig())
    found = data.duplicates
    assert found.within == {"train": 2, "validation": 0, "test": 1}
    assert {(shared.first, shared.second): (shared.count, shared.pairs) for shared in found.across} == {
        ("train", "validation"): (1, ((3, 1),)),
        ("train", "test"): (3, ((1, 0), (4, 4))),
        ("validation", "test"): (1, ((0, 3),)),
    }
    assert (found.contradictions.count, found.contradictions.pairs) == (2, ((1, 2),))
    assert describe_leaks(data)[1] == (
        "3 test images are also in train (test/a.png = train/b.png, test/e.png = train/e.png)"
    )


def test_images_of_other_shapes_or_one_other_pixel_are_not_equal() -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (500, 3, 5, 7), dtype=np.uint8)
    changed = images.copy()
    changed[:, 2, 4, 6] ^= 1
    keys = {"train": example_keys(images), "validation": example_keys(changed), "test": example_keys(images[::5])}
    found = find_duplicates(keys)
    assert found.within == {"train": 0, "validation": 0, "test": 0}
    assert [(shared.first, shared.second, shared.count) for shared in found.across] == [("train", "test", 100)]


def test_missing_values_and_zeros_of_either_sign_are_equal() -> None:
    rows = np.array([[np.nan, 0.0], [-np.nan, -0.0], [0.0, np.nan]], np.float32)
    first, second, third = example_keys(rows)
    assert first == second != third


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three files: one test row and one validation row are training rows, one only has the inputs of one."""
    (tmp_path / "train.csv").write_text("a,b,y\n1,2,cat\n3,4,dog\n5,6,cat\n5,6,dog\n7,8,dog\n")
    (tmp_path / "validation.csv").write_text("a,b,y\n1,2,cat\n1,9,dog\n")
    (tmp_path / "test.csv").write_text("a,b,y\n3,4,dog\n1,2,dog\n0,0,cat\n")
    return tmp_path


def test_equal_rows_have_equal_inputs_and_targets(table: Path) -> None:
    data = load_data(DataConfig(source="table", path=str(table)))
    assert isinstance(data, TableData)
    found = data.duplicates
    assert [(shared.first, shared.second, shared.count) for shared in found.across] == [
        ("train", "validation", 1),
        ("train", "test", 1),
    ]
    assert (found.contradictions.count, found.contradictions.pairs) == (2, ((2, 3),))
    assert describe_leaks(data)[1] == "1 test row is also in train (test row 0 = train row 1)"


def test_values_contradict_nothing(table: Path) -> None:
    for file in table.iterdir():
        file.write_text(file.read_text().replace("cat", "0.5").replace("dog", "2"))
    data = load_data(DataConfig(source="table", path=str(table)))
    assert data.duplicates.contradictions.count == 0
    assert [shared.count for shared in data.duplicates.across] == [1, 1]


def test_leaks_are_refused_where_that_is_asked_for(table: Path) -> None:
    with pytest.raises(DataError, match=r"refuse.*1 validation row is also in train .*; 1 test row .*'warn' or"):
        load_data(DataConfig(source="table", path=str(table), leaks="refuse"))
    load_data(DataConfig(source="table", path=str(table), leaks="allow"))
    load_data(DataConfig(leaks="refuse"))
    with pytest.raises(ConfigError, match=r"data\.leaks is 'never'"):
        DataConfig(leaks="never")  # type: ignore[arg-type]

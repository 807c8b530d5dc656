"""``data.classes`` on real files: images, labels, positions and accounts of what is kept."""

import io
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData
from mntrain.data.loading import load_data, load_images, load_unseen_images
from mntrain.errors import ConfigError, DataError

MakeImage = Callable[..., bytes]
NAMES = ["Greek/01", "Greek/02", "Latin/01", "Latin/02", "Runes/01"]


@pytest.fixture
def file(tmp_path: Path, make_image: MakeImage) -> Path:
    """Fifty pictures in turn of five classes named by the schema; those of Runes are larger."""
    images = [{"bytes": make_image(i, size=(9, 9) if i % 5 == 4 else (6, 5)), "path": None} for i in range(50)]
    schema = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}).arrow_schema
    pq.write_table(
        pa.table({"img": images, "label": [i % 5 for i in range(50)]}, schema=schema), tmp_path / "k.parquet"
    )
    return tmp_path / "k.parquet"


def load(path: Path, classes: str | tuple[str, ...] | None, source: str = "images") -> ImageData:
    return load_images(DataConfig(source=source, path=str(path), classes=classes))


@pytest.mark.parametrize("source", ["images", "datasets"])
def test_images_of_chosen_classes_are_those_of_the_file_with_new_labels(
    file: Path, make_image: MakeImage, source: str
) -> None:
    data = load(file, "Latin/*,Greek/02", source)
    assert data.label_names == ("Greek/02", "Latin/01", "Latin/02")
    assert sum(data.split.counts.values()) == 30
    for split, positions in data.split.indices.items():
        part = data.part(split)
        assert [data.label_names[label] for label in part.labels] == [NAMES[position % 5] for position in positions]
        for image, position in zip(part.images, positions, strict=True):
            original = np.asarray(Image.open(io.BytesIO(make_image(int(position)))))
            np.testing.assert_array_equal(image[0], original)
    assert data.place("test", 0) == f"image {data.split.indices['test'][0]}"
    (left_out,) = data.account.ignored
    assert (left_out.count, left_out.examples) == (20, ("Greek/01", "Runes/01"))
    assert data.account.sizes == {"5x6": 30}, "images that are left out are not even decoded"


def test_the_same_classes_in_other_words_have_the_same_digest_and_other_classes_another(file: Path) -> None:
    words: list[str | tuple[str, ...]] = ["Greek/*", ("Greek/02", "Greek/01"), "!Latin/*,!Runes/*", "Latin/*"]
    first, *same, other = [load(file, classes).split.sha256 for classes in words]
    assert same == [first, first]
    assert other != first


def test_a_pattern_without_a_class_and_a_single_class_are_refused_by_file(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"'Latn/\*', which matches none of the 5 classes of '.*k\.parquet'; did you"):
        load(file, "Latn/*")
    with pytest.raises(ConfigError, match=r"leaves 1 class\(es\) \('Runes/01'\)"):
        load(file, "Runes/*")


def test_a_class_that_only_the_test_split_has_may_be_left_out(pictures: Callable[..., Path]) -> None:
    names = [f"{split}/{label}/{i}.png" for split in ("train", "test") for label in "abc" for i in range(4)]
    folder = pictures([*names, "test/bird/0.png"])
    with pytest.raises(DataError, match="'bird'"):
        load(folder, None)
    data = load(folder, "!bird")
    assert (data.label_names, data.split.counts["test"]) == (("a", "b", "c"), 12)
    data = load(folder, "b,c")
    assert data.label_names == ("b", "c")
    assert {data.place("test", number) for number in range(8)} == {f"test/{c}/{i}.png" for c in "bc" for i in range(4)}
    with pytest.raises(DataError, match=r"train split does not have: 'bird' \(1 images\)"):
        load(folder, "a,bird")


def test_a_split_without_an_image_of_the_classes_is_refused_for_training_alone(pictures: Callable[..., Path]) -> None:
    names = [f"train/{label}/{i}.png" for label in "abcd" for i in range(4)] + ["test/a/0.png", "test/b/0.png"]
    folder = pictures(names)
    with pytest.raises(DataError, match=r"data\.classes keeps no image of the test split"):
        load(folder, "c,d")
    unseen = load_unseen_images(DataConfig(source="images", path=str(folder), classes="c,d"))
    assert {split: len(part) for split, part in unseen.splits.items()} == {"train": 8}
    alone = load_unseen_images(DataConfig(source="images", path=str(folder), classes="a"))
    assert (alone.label_names, {split: len(part) for split, part in alone.splits.items()}) == (
        ("a",),
        {"train": 4, "test": 1},
    )


def test_text_labels_over_several_files_keep_their_rows(tmp_path: Path, make_image: MakeImage) -> None:
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    (tmp_path / "k").mkdir()
    for start, labels in ((0, "abca"), (4, "cccc"), (8, "bacb")):
        rows = pa.array([{"bytes": make_image(start + i), "path": None} for i in range(4)], struct)
        pq.write_table(pa.table({"img": rows, "label": list(labels)}), tmp_path / f"k/{start}.parquet")
    unseen = load_unseen_images(DataConfig(source="images", path=str(tmp_path / "k"), classes="!c"))
    assert unseen.positions["all"].tolist() == [0, 1, 3, 8, 9, 11]
    assert unseen.splits["all"].labels.tolist() == [0, 1, 0, 1, 0, 1]
    for image, position in zip(unseen.splits["all"].images, unseen.positions["all"], strict=True):
        np.testing.assert_array_equal(image[0], np.asarray(Image.open(io.BytesIO(make_image(int(position))))))


def test_digits_and_idx_folders_choose_by_number(write_idx: Callable[..., Path]) -> None:
    whole, some = load_data(DataConfig()), load_images(DataConfig(classes="7,3"))
    assert some.label_names == ("3", "7")
    everything = np.concatenate([whole.part(split).targets for split in ("train", "validation", "test")])
    assert sum(some.split.counts.values()) == np.isin(everything, (3, 7)).sum() == sum(some.account.sizes.values())
    folder = write_idx()
    data = load_images(DataConfig(source="idx", path=str(folder), classes="!1"))
    expected = np.random.default_rng(30).integers(0, 256, (30, 5, 4), dtype=np.uint8)
    positions = data.split.indices["train"]
    np.testing.assert_array_equal(data.train.images[:, 0], expected[positions])
    assert [data.label_names[label] for label in data.train.labels] == [str(position % 3) for position in positions]
    assert set(positions % 3) == {0, 2}

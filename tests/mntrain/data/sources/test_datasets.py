import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

from mntrain.data.config import DataConfig
from mntrain.data.images import ImageData
from mntrain.data.loading import load_images
from mntrain.errors import ConfigError, DataError, MnTrainError

SCHEMA = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})

MakeImage = Callable[..., bytes]
Write = Callable[..., Path]


def load(path: Path | str, **fields: Any) -> ImageData:
    return load_images(DataConfig(source="datasets", path=str(path), **fields))


def save(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def test_a_single_parquet_file_is_split_and_its_text_labels_are_sorted(
    write_parquet: Write, make_image: MakeImage
) -> None:
    names = ["dog", "ant", "cat"]
    encoded = [make_image(i) for i in range(30)]
    data = load(write_parquet(encoded, [names[i % 3] for i in range(30)]))
    assert data.label_names == ("ant", "cat", "dog")
    assert data.split.origins["train"] == "all"
    assert (data.channels, data.height, data.width) == (1, 6, 5)
    for name, positions in data.split.indices.items():
        part = data.part(name)
        for row, position in enumerate(positions):
            original = np.asarray(Image.open(io.BytesIO(encoded[position])))
            np.testing.assert_array_equal(part.images[row, 0], original)
            assert data.label_names[part.labels[row]] == names[position % 3]


def test_parquet_files_named_by_split_keep_their_splits(write_parquet: Write, make_image: MakeImage) -> None:
    for name, count in (("train", 20), ("val", 4), ("test", 6)):
        file = write_parquet(
            [make_image(i) for i in range(count)], [i % 2 for i in range(count)], f"set/{name}.parquet"
        )
    data = load(file.parent)
    assert data.split.counts == {"train": 20, "validation": 4, "test": 6}
    assert data.label_names == ("0", "1")


def test_files_without_split_names_are_joined(write_parquet: Write, make_image: MakeImage) -> None:
    for name in ("photo", "sketch"):
        file = write_parquet([make_image(i) for i in range(20)], [i % 2 for i in range(20)], f"set/{name}.parquet")
    data = load(file.parent)
    assert sum(data.split.counts.values()) == 40
    assert set(data.split.origins.values()) == {"all"}


@pytest.mark.parametrize("layout", ["{label}/{i}.png", "train/{label}/{i}.png"])
def test_folders_of_images_are_labelled_by_folder(tmp_path: Path, make_image: MakeImage, layout: str) -> None:
    for i in range(24):
        file = tmp_path / "pictures" / layout.format(label="ab"[i % 2], i=i)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_image(i, color=True))
    data = load(tmp_path / "pictures")
    assert data.label_names == ("a", "b")
    assert sum(data.split.counts.values()) == 24
    assert data.channels == 3


def test_a_data_set_saved_to_disk_is_read(tmp_path: Path) -> None:
    images = [Image.fromarray(np.full((4, 4), i, np.uint8)) for i in range(20)]
    table = datasets.Dataset.from_dict({"image": images, "label": [0, 1] * 10}, features=SCHEMA)
    table.save_to_disk(tmp_path / "saved")
    assert load(tmp_path / "saved").label_names == ("no", "yes")


def test_grey_and_colour_images_become_colour(write_parquet: Write, make_image: MakeImage) -> None:
    encoded = [make_image(i, color=i == 7) for i in range(20)]
    file = write_parquet(encoded, [i % 2 for i in range(20)])
    data = load(file)
    assert data.channels == 3
    grey = int(np.flatnonzero(data.split.indices["train"] != 7)[0])
    assert (data.train.images[grey, 0] == data.train.images[grey, 1]).all()
    assert load(file, color="L").channels == 1


def test_colour_in_the_test_split_alone_makes_all_splits_colour(write_parquet: Write, make_image: MakeImage) -> None:
    file = write_parquet([make_image(i) for i in range(20)], [0, 1] * 10, "set/train.parquet")
    write_parquet([make_image(i, color=True) for i in range(4)], [0, 1] * 2, "set/test.parquet")
    assert load(file.parent).train.images.shape[1] == 3


def test_mixed_sizes_are_refused_without_image_size(write_parquet: Write, make_image: MakeImage) -> None:
    file = write_parquet([make_image(i, size=(6, 6 + i % 2)) for i in range(20)], [0] * 10 + [1] * 10)
    with pytest.raises(DataError, match=r"2 different sizes.*6x6 \(10 images\), 7x6.*data.image_size"):
        load(file)
    assert load(file, image_size=9).train.images.shape[1:] == (1, 9, 9)


def test_columns_are_found_and_can_be_named(write_parquet: Write, make_image: MakeImage) -> None:
    encoded = [make_image(i) for i in range(20)]
    file = write_parquet(encoded, [0, 1] * 10, shape=["round", "long"] * 10, raw=encoded, weight=[0.5] * 20)
    assert load(file).label_names == ("0", "1")
    assert load(file, label_column="shape", image_column="raw").label_names == ("long", "round")
    with pytest.raises(ConfigError, match=r"label_column is 'colour'.*'shape' \(string\)"):
        load(file, label_column="colour")
    with pytest.raises(DataError, match="'weight' holds float64, not encoded images"):
        load(file, image_column="weight")
    with pytest.raises(DataError, match="label column 'weight' holds float64"):
        load(file, label_column="weight")


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        ([0, 1] * 9 + [0, None], ["image 19 has no label (None)"]),
        ([0, 1] * 9 + [0, -1], ["negative labels (-1)"]),
        ([0.0, 1.0] * 10, ["label column 'label' holds float64", "whole"]),
        ([[0], [1]] * 10, ["label column 'label' holds"]),
        (["a"] * 20, ["1 class(es) ['a']"]),
        (["a"] * 19 + ["b"], ["'b' has a single image"]),
    ],
)
def test_unusable_labels_are_explained(
    write_parquet: Write, make_image: MakeImage, labels: list[Any], parts: list[str]
) -> None:
    file = write_parquet([make_image(i) for i in range(20)], labels)
    with pytest.raises(DataError) as caught:
        load(file)
    for part in parts:
        assert part in str(caught.value)


def test_class_labels_out_of_range_are_named(tmp_path: Path) -> None:
    images = [Image.new("L", (3, 3))] * 6
    table = datasets.Dataset.from_dict({"image": images, "label": [0, 1, -1, 0, 1, 0]}, features=SCHEMA)
    table.to_parquet(tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"image 2 has label -1.*without a label.*0 to 1 \(2 classes\)"):
        load(tmp_path / "train.parquet")


NAN = np.full((4, 4), np.nan, np.float32)


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        (b"not an image", ["image 5", "cannot be decoded"]),
        (None, ["image 5", "missing (None)"]),
        (save(Image.new("RGB", (64, 64), "red"), "JPEG")[:300], ["image 5", "cannot be decoded"]),
        (save(Image.fromarray(NAN), "TIFF"), ["image 5", "NaN pixels"]),
        (save(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF"), ["float pixels", "mode 'F'"]),
        (save(Image.fromarray(np.zeros((4, 4), np.uint16)), "PNG"), ["more than 8 bits"]),
        (
            save(Image.new("L", (4, 4)), "GIF", save_all=True, append_images=[Image.new("L", (4, 4), 9)]),
            ["image 5", "animated", "2 frames"],
        ),
    ],
)
def test_unusable_images_are_named(
    write_parquet: Write, make_image: MakeImage, bad: bytes | None, parts: list[str]
) -> None:
    encoded: list[bytes | None] = [make_image(i) for i in range(20)]
    encoded[5] = bad
    with pytest.raises(DataError) as caught:
        load(write_parquet(encoded, [0, 1] * 10))
    for part in parts:
        assert part in str(caught.value)


def test_photographs_are_turned_upright(write_parquet: Write) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    turned = save(Image.new("L", (8, 4)), "JPEG", exif=exif)
    data = load(write_parquet([turned] * 20, [0, 1] * 10))
    assert (data.height, data.width) == (8, 4)


def test_missing_damaged_and_foreign_paths_are_explained(tmp_path: Path, write_parquet: Write) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "notes.txt").write_text("no data")
    no_images = write_parquet([None, None], [0, 1], "other/train.parquet")
    cases: list[tuple[Path | str, type[MnTrainError], str]] = [
        (tmp_path / "nothing", DataError, "does not exist; check data.path"),
        ("./nothing.parquet", DataError, "does not exist"),
        (tmp_path / "empty", DataError, "holds no picture"),
        (tmp_path / "damaged.parquet", DataError, "cannot be read"),
        (tmp_path / "notes.txt", ConfigError, "unknown kind '.txt'"),
        ("no-such-owner/no-such-set", DataError, "no local folder or file"),
        (no_images, DataError, "image 0 is missing"),
    ]
    for path, error, part in cases:
        with pytest.raises(error) as caught:
            load(path)
        assert part in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_table_without_images_or_labels_is_refused(
    tmp_path: Path, write_parquet: Write, make_image: MakeImage
) -> None:
    datasets.Dataset.from_dict({"x": [0.5, 1.5]}).to_parquet(tmp_path / "numbers.parquet")
    with pytest.raises(DataError, match=r"no column of images; its columns are 'x' \(float64\)"):
        load(tmp_path / "numbers.parquet")
    (tmp_path / "flat").mkdir()
    for i in range(3):
        (tmp_path / "flat" / f"{i}.png").write_bytes(make_image(i))
    with pytest.raises(DataError, match=r"3 picture\(s\) and no class folder: '0.png'.*sub-folder for each class"):
        load(tmp_path / "flat")


def test_an_empty_split_is_refused(tmp_path: Path, write_parquet: Write, make_image: MakeImage) -> None:
    train = datasets.Dataset.from_dict({"image": [Image.new("L", (3, 3))] * 4, "label": [0, 1] * 2}, features=SCHEMA)
    datasets.DatasetDict(train=train, test=train.select([])).save_to_disk(tmp_path / "saved")
    with pytest.raises(DataError, match="damaged, empty, or not belong together"):
        load(tmp_path / "saved")
    file = write_parquet([make_image(i) for i in range(4)], [0, 1] * 2, "set/train.parquet")
    write_parquet([], [], "set/test.parquet")
    with pytest.raises(DataError, match="the test split holds no images"):
        load(file.parent)


def test_logging_and_bars_are_left_as_they_were(write_parquet: Write, make_image: MakeImage) -> None:
    before = logging.getLogger("datasets").level, datasets.are_progress_bars_disabled()
    load(write_parquet([make_image(i) for i in range(20)], [0, 1] * 10))
    assert (logging.getLogger("datasets").level, datasets.are_progress_bars_disabled()) == before


def test_loading_prints_nothing(write_parquet: Write, make_image: MakeImage, capfd: pytest.CaptureFixture[str]) -> None:
    load(write_parquet([make_image(i) for i in range(20)], [0, 1] * 10))
    assert capfd.readouterr() == ("", "")


def test_cifar10_keeps_its_test_split(shared_data: Path) -> None:
    data = load(shared_data / "cifar10-jpeg", train_limit=1000)
    assert data.split.counts == {"train": 1000, "validation": 5000, "test": 10000}
    assert (data.channels, data.height, data.width) == (3, 32, 32)
    assert data.label_names[:3] == ("airplane", "automobile", "bird")


def test_pacs_has_no_splits_of_its_own(shared_data: Path) -> None:
    data = load(shared_data / "pacs-64", image_size=16)
    assert sum(data.split.counts.values()) == 9991
    assert data.num_classes == 7


def test_few_shot_splits_are_refused(shared_data: Path) -> None:
    with pytest.raises(DataError, match="no training image: 'n0"):
        load(shared_data / "mini-imagenet-84-80perclass", image_size=8)


def test_another_split_can_be_the_one_to_test_on(write_parquet: Write, make_image: MakeImage) -> None:
    for name, count in (("train", 40), ("valid", 6), ("test", 5)):
        labels = [i % 2 for i in range(count)]
        file = write_parquet([make_image(i) for i in range(count)], labels, f"set/{name}.parquet")
    data = load(file.parent, test_split="valid", validation_fraction=0.1)
    assert data.split.counts == {"train": 36, "validation": 4, "test": 6}
    assert load(file.parent).split.counts == {"train": 40, "validation": 6, "test": 5}
    for wrong in ("train", "extra"):
        with pytest.raises(ConfigError, match=f"data.test_split is '{wrong}'.*splits test, train, valid"):
            load(file.parent, test_split=wrong)


def test_a_subset_is_of_the_hub_alone(write_parquet: Write, make_image: MakeImage) -> None:
    file = write_parquet([make_image(i) for i in range(20)], [0, 1] * 10)
    for path, kind in ((file, "a single file"), (file.parent, "a local folder")):
        with pytest.raises(ConfigError, match=f"data.subset is 'one'.*{kind}; leave it out"):
            load(path, subset="one")
    with pytest.raises(ConfigError, match=r"data.subset is 'one'.*'digits'"):
        DataConfig(source="digits", subset="one")

"""Own images: what is learned is what lies there, whatever the files are called and however often they change."""

import itertools
import json
import os
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.loading import load_source
from mntrain.errors import ConfigError, DataError

Write = Callable[..., Path]
MakeImage = Callable[..., bytes]
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def load(path: Path, **fields: Any) -> SourceImages:
    loaded = load_source(DataConfig(source="images", path=str(path), **fields))
    assert isinstance(loaded, SourceImages)
    return loaded


def labels(loaded: SourceImages, split: str = "all") -> list[str]:
    return [loaded.label_names[label] for label in loaded.splits[split].labels]


def ignored(loaded: SourceImages) -> dict[str, int]:
    return {entry.reason: entry.count for entry in loaded.account.ignored}


def save_splits(path: Path, **splits: tuple[list[str], list[int]]) -> Path:
    """Save a data set whose splits name their classes each in their own order; pixels are the class's letter."""
    tables = {}
    for split, (names, values) in splits.items():
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)})
        images = [Image.new("L", (4, 4), ord(names[value][0])) for value in values]
        tables[split] = datasets.Dataset.from_dict({"image": images, "label": values}, features=features)
    datasets.DatasetDict(tables).save_to_disk(path)
    return path


def test_classes_of_a_saved_set_are_matched_by_name(tmp_path: Path) -> None:
    path = save_splits(tmp_path / "k[1]", Train=(["cat", "dog"], [0, 1] * 5), test=(["dog", "cat"], [0, 1, 1]))
    loaded = load(path)
    assert loaded.label_names == ("cat", "dog")
    assert labels(loaded, "test") == ["dog", "cat", "cat"]
    for part in loaded.splits.values():
        assert [chr(pixel) for pixel in part.images[:, 0, 0, 0]] == [loaded.label_names[i][0] for i in part.labels]


def test_a_class_that_training_lacks_is_refused_and_one_that_testing_lacks_is_told(tmp_path: Path) -> None:
    train = (["cat", "dog"], [0, 1] * 5)
    with pytest.raises(DataError, match=r"test split holds classes that the train split does not have: 'eel' \(2 ima"):
        load(save_splits(tmp_path / "more", train=train, test=(["cat", "eel"], [0, 1, 1])))
    loaded = load(save_splits(tmp_path / "fewer", train=train, test=(["cat", "eel"], [0, 0])))
    assert "in test there is no image of 'dog'" in loaded.account.splits
    loaded = load(save_splits(tmp_path / "unused", train=(["cat", "dog", "eel"], [0, 1] * 5), test=train))
    assert "in train there is no image of 'eel'" in loaded.account.splits


def test_files_that_a_saved_set_does_not_name_are_told(tmp_path: Path) -> None:
    folder = save_splits(tmp_path / "k", train=(["a", "b"], [0, 1] * 3), test=(["a", "b"], [0, 1]))
    assert ignored(load(folder)) == {}
    (folder / "train" / "more.png").write_bytes(b"x")
    (folder / "notes.txt").write_text("x")
    assert ignored(load(folder)) == {"files that the saved data set does not name": 2}


def test_a_column_of_splits_may_hold_class_labels(tmp_path: Path, make_image: MakeImage) -> None:
    names = {
        "image": datasets.Image(),
        "label": datasets.Value("string"),
        "use": datasets.ClassLabel(names=["Train", "test"]),
    }
    rows = {
        "image": [{"bytes": make_image(i), "path": None} for i in range(4)],
        "label": list("abab"),
        "use": [0, 0, 0, 1],
    }
    datasets.Dataset.from_dict(rows, features=datasets.Features(names)).save_to_disk(str(tmp_path / "k"))
    loaded = load(tmp_path / "k")
    assert {split: len(part) for split, part in loaded.splits.items()} == {"train": 3, "test": 1}


def test_splits_of_other_names_and_of_none(tmp_path: Path) -> None:
    part = (["cat", "dog"], [0, 1] * 5)
    loaded = load(save_splits(tmp_path / "extra", train=part, test=part, extra=part))
    assert set(loaded.splits) == {"train", "test"}
    assert ignored(loaded) == {"images of splits that are not used": 10}
    assert len(load(save_splits(tmp_path / "none", photo=part, sketch=part)).splits["all"]) == 20
    with pytest.raises(DataError, match="the splits validation, test, but none called train"):
        load(save_splits(tmp_path / "held-out", validation=part, test=part))
    with pytest.raises(DataError, match="val, validation all mean the validation split"):
        load(save_splits(tmp_path / "twice", train=part, val=part, validation=part))


def write_table(file: Path, images: Any, **columns: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**images, **columns}), file)
    return file


def test_text_in_one_split_and_class_labels_in_the_other(tmp_path: Path, make_image: MakeImage) -> None:
    encoded = pa.array([{"bytes": make_image(i), "path": None} for i in range(4)], STRUCT)
    schema = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["b", "a"])})
    write_table(tmp_path / "k/train.parquet", {"img": encoded}, label=["a", "b", "a", "b"])
    table = pa.table({"img": encoded, "label": [0, 1, 1, 1]}).cast(schema.arrow_schema)
    pq.write_table(table, tmp_path / "k/test.parquet")
    loaded = load(tmp_path / "k")
    assert (labels(loaded, "train"), labels(loaded, "test")) == (["a", "b", "a", "b"], ["b", "a", "a", "a"])
    write_table(tmp_path / "k/test.parquet", {"img": encoded}, label=[0, 1, 0, 1])
    with pytest.raises(DataError, match=r"'0' \(2 images\).*test split are whole numbers.*train split text: 'a', 'b'"):
        load(tmp_path / "k")


@pytest.mark.parametrize(("column", "told"), [("img", "images"), ("label", "labels")])
def test_another_name_of_a_column_in_one_split_is_refused(
    tmp_path: Path, make_image: MakeImage, column: str, told: str
) -> None:
    encoded = pa.array([{"bytes": make_image(i), "path": None} for i in range(4)], STRUCT)
    for split in ("train", "test"):
        names = {"img": encoded, "label": ["a", "b"] * 2}
        if split == "test":
            names = {f"{name}2" if name == column else name: values for name, values in names.items()}
        write_table(tmp_path / f"k/{split}.parquet", names)
    with pytest.raises(DataError, match=rf"test split: the {told} are in the column '{column}2'.*in '{column}'"):
        load(tmp_path / "k")


def test_files_that_are_joined_may_order_their_classes_each_in_its_way(tmp_path: Path, make_image: MakeImage) -> None:
    encoded = pa.array([{"bytes": make_image(i), "path": None} for i in range(2)], STRUCT)
    for name, classes in (("one", ["cat", "dog"]), ("two", ["dog", "cat"])):
        schema = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=classes)})
        table = pa.table({"img": encoded, "label": [0, 1]}).cast(schema.arrow_schema)
        (tmp_path / "k").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / f"k/{name}.parquet")
    assert labels(load(tmp_path / "k")) == ["cat", "dog", "dog", "cat"]


def test_a_file_replaced_within_the_same_time_stamp_gives_its_new_rows(
    write_parquet: Write, make_image: MakeImage
) -> None:
    file = write_parquet([make_image(i) for i in range(4)], ["a", "b"] * 2)
    before, stamp = load(file), os.stat(file)
    write_parquet([make_image(i) for i in range(4, 8)], ["b", "a"] * 2)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    after = load(file)
    assert labels(after) == ["b", "a"] * 2
    assert not np.array_equal(before.splits["all"].images, after.splits["all"].images)


def test_metadata_rewritten_in_place_gives_its_new_labels(pictures: Callable[..., Path]) -> None:
    folder = pictures(["a/0.png", "a/1.png"])
    for order in (["x", "y"], ["y", "x"]):
        (folder / "metadata.csv").write_text(f"file_name,label\na/0.png,{order[0]}\na/1.png,{order[1]}\n")
        os.utime(folder / "metadata.csv", (1, 1))
        assert labels(load(folder)) == order


def test_labels_of_tables_are_compared_without_spaces_and_composed(write_parquet: Write, make_image: MakeImage) -> None:
    composed, apart = unicodedata.normalize("NFC", "né"), unicodedata.normalize("NFD", "né")
    loaded = load(write_parquet([make_image(i) for i in range(4)], [composed, apart, "b", " b "]))
    assert labels(loaded) == [composed, composed, "b", "b"]


def test_columns_of_other_types_and_numbers_of_any_length(tmp_path: Path, make_image: MakeImage) -> None:
    encoded = [make_image(i) for i in range(2)]
    views = pa.array(["a", "b"], pa.string_view())
    assert labels(load(write_table(tmp_path / "k.parquet", {"raw": encoded}, label=views))) == ["a", "b"]
    split = pa.array(["train", "test"] * 2, pa.string_view())
    views = pa.array(["a", "a", "b", "a"], pa.string_view())
    loaded = load(write_table(tmp_path / "k.parquet", {"raw": encoded * 2}, label=views, use=split))
    assert (labels(loaded, "train"), labels(loaded, "test")) == (["a", "b"], ["a", "a"])
    further = pa.array([[("k", 1)]] * 2, pa.map_(pa.string(), pa.int64()))
    loaded = load(write_table(tmp_path / "k.parquet", {"raw": encoded}, label=["a", "b"], further=further))
    assert {column.name: column.kind for column in loaded.account.columns}["further"].startswith("map<string, int64")
    for number, image in enumerate(encoded):
        (tmp_path / f"{number}.png").write_bytes(image)
    numbers = [str(10**30), "5" * 5000]
    (tmp_path / "k.csv").write_text("path,label\n" + "".join(f"{i}.png,{text}\n" for i, text in enumerate(numbers)))
    assert labels(load(tmp_path / "k.csv")) == numbers
    (tmp_path / "k.jsonl").write_text(json.dumps({"path": "0.png", "label": 10**30}))
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "k.jsonl")


@pytest.mark.parametrize("source", ["images", "datasets", "idx", "table"])
def test_a_path_too_long_or_below_an_unknown_home_does_not_exist(source: str) -> None:
    for path, told in (("/" + "a" * 5000, "it has 5001 characters"), ("~nobody-of-that-name/k.csv", "~nobody")):
        with pytest.raises(DataError, match=told):
            load_source(DataConfig(source=source, path=path))


def test_raw_bytes_are_images_where_they_decode(tmp_path: Path, make_image: MakeImage) -> None:
    encoded = [make_image(i) for i in range(4)]
    other = [bytes(8)] * 4
    loaded = load(write_table(tmp_path / "k.parquet", {"raw": encoded, "digest": other}, label=["a", "b"] * 2))
    assert labels(loaded) == ["a", "b"] * 2
    assert {column.name: column.role for column in loaded.account.columns}["raw"] == "image"
    categories = pa.array(["a", "b"] * 2).dictionary_encode()
    assert labels(load(write_table(tmp_path / "k.parquet", {"raw": encoded}, label=categories))) == ["a", "b"] * 2


def test_names_of_class_folders(pictures: Callable[..., Path]) -> None:
    composed, apart = unicodedata.normalize("NFC", "né"), unicodedata.normalize("NFD", "né")
    names = ["Cat", "cat", "k[1]", "a b", "__background__", "train*", "猫"]
    folder = pictures(
        [f"{split}/{name}/{i}.png" for split in ("train", "test") for name in names for i in "01"], "s[1]"
    )
    pictures([f"train/{composed}/0.png", f"test/{apart}/0.png"], "s[1]")
    loaded = load(folder)
    assert set(loaded.label_names) == {*names, composed}
    assert labels(loaded, "test").count(composed) == 1
    with pytest.raises(DataError, match="same name, but for spaces or Unicode"):
        load(pictures([f"{composed}/0.png", f"{apart}/0.png"], "twice"))
    with pytest.raises(DataError, match=r"'a\\nb' has a line break in its name"):
        load(pictures(["a\nb/0.png", "c/0.png"], "lines"))


def test_splits_below_classes_and_tables_below_the_top_are_refused(pictures: Callable[..., Path]) -> None:
    folder = pictures([f"{label}/{split}/0.png" for label in ("cat", "dog") for split in ("train", "test")])
    with pytest.raises(DataError, match=r"'cat/test', 'cat/train'.* lie below class folders"):
        load(folder, nested=True)
    clone = pictures(["x/0.png"], "other").parent / "clone"
    write_table(clone / "data" / "train-00000-of-00001.parquet", {"img": [b""]}, label=["a"])
    with pytest.raises(DataError, match=r"holds no pictures, but tables in 'data'; set data.path to that folder"):
        load(clone)


def test_a_name_that_is_no_text_is_refused(pictures: Callable[..., Path]) -> None:
    folder = pictures(["a/0.png", "b/0.png"])
    os.rename(folder / "b" / "0.png", os.fsencode(folder / "b") + b"/\xff.png")
    with pytest.raises(DataError, match=r"'b/\\udcff\.png' in '.*/k/' has a name that is no valid UTF-8"):
        load(folder)


def test_each_split_folder_may_have_its_own_manifest(pictures: Callable[..., Path]) -> None:
    folder = pictures([f"{split}/{i}.png" for split in ("train", "test") for i in range(4)])
    for split, order in (("train", "abab"), ("test", "bb")):
        lines = "".join(f"{i}.png,{label}\n" for i, label in enumerate(order))
        (folder / split / "metadata.csv").write_text(f"file_name,label\n{lines}")
    (folder / "info.json").write_text('{"classes": ["a", "b"]}')
    loaded = load(folder)
    assert (labels(loaded, "train"), labels(loaded, "test")) == (["a", "b", "a", "b"], ["b", "b"])
    assert ignored(loaded) == {"JSON files without rows": 1, "pictures that no table names": 2}


def test_links_are_followed_but_not_in_circles(pictures: Callable[..., Path]) -> None:
    store = pictures(["x/0.png", "x/1.png"], "store")
    folder = pictures(["a/0.png", "a/1.png"])
    (folder / "b").symlink_to(store / "x")
    (folder / "a" / "2.png").symlink_to(store / "x" / "0.png")
    (folder / "a" / "gone.png").symlink_to(folder / "nowhere.png")
    (folder / "a" / "up").symlink_to(folder)
    os.mkfifo(folder / "a" / "pipe.png")
    loaded = load(folder)
    assert sorted(labels(loaded)) == ["a", "a", "a", "b", "b"]
    expected = {"links to nothing": 1, "links back to a folder above": 1, "pipes, sockets and devices": 1}
    assert ignored(loaded) == expected
    steps = [folder.parent / "maze" / str(step) for step in range(20)]
    for step, following in itertools.pairwise(steps):
        step.mkdir(parents=True)
        for name in "ab":
            (step / name).symlink_to(following)
    steps[-1].mkdir()
    with pytest.raises(DataError, match=r"lead to the folder of '.*' more than 256 times"):
        load(steps[0])


def test_a_damaged_picture_is_refused_by_name(pictures: Callable[..., Path]) -> None:
    folder = pictures(["a/0.png", "b/0.png"])
    (folder / "b" / "bad.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"b/bad\.png'\) cannot be decoded"):
        load(folder)


def test_sizes_and_colours_are_recorded_as_found(tmp_path: Path) -> None:
    for name, size, mode in (("a/0.png", (8, 4), "L"), ("a/1.png", (8, 4), "L"), ("b/0.png", (5, 6), "RGB")):
        (tmp_path / "k" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size).save(tmp_path / "k" / name)
    account = load(tmp_path / "k", image_size=4, image_fit="pad").account
    assert (account.sizes, account.colors) == ({"8x4": 2, "5x6": 1}, {"L": 2, "RGB": 1})
    assert account.pixels == "3 scaled and padded to 4x4; RGB, 3 channels"
    assert account.location == str(tmp_path / "k")
    assert account.layout == "class folders, then pictures"
    digits = load_source(DataConfig()).account
    assert (digits.sizes, digits.colors, digits.pixels) == ({"8x8": 1797}, {"L": 1797}, "8x8 as found; grey, 1 channel")


def test_test_split_names_a_folder(pictures: Callable[..., Path]) -> None:
    names = [f"{split}/{label}/{i}.png" for split in ("train", "test", "new") for label in "ab" for i in "012"]
    folder = pictures(names)
    loaded = load(folder, test_split="new")
    assert {name: len(part) for name, part in loaded.splits.items()} == {"train": 6, "test": 6}
    assert ignored(loaded) == {"pictures of splits that are not used": 6}
    with pytest.raises(ConfigError, match=r"data.test_split is 'none', but .* has no split folders"):
        load(folder, test_split="none")


def test_options_that_do_not_fit_are_refused(pictures: Callable[..., Path], write_parquet: Write) -> None:
    with pytest.raises(ConfigError, match=r"data.nested is 'yes'; it must be true or false"):
        DataConfig(source="images", path="k", nested="yes")  # type: ignore[arg-type]
    file = write_parquet([None], ["a"])
    with pytest.raises(ConfigError, match=r"data.nested is true, but .* holds a table of images, no class folders"):
        load(file, nested=True)
    with pytest.raises(ConfigError, match=r"data.split_column is 'fold', but"):
        load(file, split_column="fold")


def test_the_network_is_never_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_parquet: Write, make_image: MakeImage
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(DataError, match=r"does not exist.*choose data.source datasets"):
        load(Path("owner/name"))
    image = pa.array([{"bytes": None, "path": "https://example.org/0.png"}] * 2, STRUCT)
    file = write_table(tmp_path / "k.parquet", {"image": image}, label=["a", "b"])
    with pytest.raises(DataError, match=r"cannot be decoded.*No such file"):
        load(file)

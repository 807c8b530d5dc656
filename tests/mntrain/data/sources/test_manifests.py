"""Manifests: tables that name paths, labels and splits of images."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.loading import load_images, load_source
from mntrain.errors import ConfigError, DataError

Write = Callable[..., Path]
MakeImage = Callable[..., bytes]
ROWS = [("0.png", "7", "Train"), ("in/1.png", "3", "train"), ("in/../2.png", "9", "VAL"), ("{here}/3.png", "3", "test")]


def load(path: Path, **fields: Any) -> SourceImages:
    loaded = load_source(DataConfig(source="images", path=str(path), **fields))
    assert isinstance(loaded, SourceImages)
    return loaded


def labels(loaded: SourceImages, split: str = "all") -> list[str]:
    return [loaded.label_names[label] for label in loaded.splits[split].labels]


def ignored(loaded: SourceImages) -> dict[str, int]:
    return {entry.reason: entry.count for entry in loaded.account.ignored}


@pytest.mark.parametrize("kind", ["csv", "tsv", "semicolon.csv", "jsonl", "json", "parquet", "arrow"])
def test_a_manifest_names_paths_labels_and_splits(pictures: Callable[..., Path], kind: str) -> None:
    folder = pictures(["0.png", "in/1.png", "2.png", "3.png", "in/unused.png"])
    rows = [(path.format(here=folder), label, split) for path, label, split in ROWS]
    # The validation image is of class 3 too, since classes are those of the train split.
    rows[2] = (rows[2][0], "7", rows[2][2])
    file = folder / f"list.{kind}"
    if kind.endswith("sv"):
        mark = {"csv": ",", "tsv": "\t", "semicolon.csv": ";"}[kind]
        lines = [("", "path", "label", "split"), *((str(i), *row) for i, row in enumerate(rows))]
        file.write_text("".join(mark.join(line) + "\r\n" for line in lines), "utf-8-sig")
    else:
        records = [{"path": path, "label": int(label), "split": split} for path, label, split in rows]
        table = pa.Table.from_pylist(records)
        if kind == "jsonl":
            file.write_text("\n".join(map(json.dumps, records)))
        elif kind == "json":
            file.write_text(json.dumps(records, indent=1))
        elif kind == "parquet":
            pq.write_table(table, file)
        else:
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    for path in (file, folder):
        loaded = load(path)
        assert loaded.label_names == ("3", "7")
        found = {split: labels(loaded, split) for split in loaded.splits}
        assert found == {"train": ["7", "3"], "validation": ["7"], "test": ["3"]}
        told = "by the column 'split'; in validation there is no image of '3'; in test there is no image of '7'"
        assert loaded.account.splits == told
        assert ignored(loaded) == {"pictures that no table names": 1}
        roles = {column.name: column.role for column in loaded.account.columns}
        assert roles | {"": "excluded"} == {"": "excluded", "path": "image", "label": "label", "split": "split"}
    expected = [np.asarray(Image.open(folder / name)) for name in ("0.png", "in/1.png")]
    np.testing.assert_array_equal(load(file).splits["train"].images[:, 0], expected)


@pytest.mark.parametrize(
    ("text", "fields", "parts"),
    [
        ("path,label\n0.png,a\nnone.png,b\nmiss.png,a\n", {}, ["2 file(s) that are not there", "none.png"]),
        ("path,label,split\n0.png,a,train\n1.png,b,holdout\n", {}, ["column 'split' holds 'holdout'"]),
        ("path,label,split\n0.png,a,train\n1.png,b,\n", {}, ["column 'split' holds no value"]),
        ("path,label,part\n0.png,a,x\n1.png,b,y\n", {"split_column": "part"}, ["column 'part' holds 'x', 'y'"]),
        ("path,label,split\n0.png,a,val\n1.png,b,test\n", {}, ["no row is of the train split"]),
        ("path,label,split\n0.png,a,train\n1.png,b,test\n", {}, ["does not have: 'b'"]),
        ("path,label\n0.png,a\n1.png,b\n0.png, b \n", {}, ["0.png' twice, with the labels 'a' and 'b'"]),
        ("path,label\n0.png,-1\n1.png,1\n", {}, ["negative labels (-1)"]),
        ("path,label\n0.png,a\n1.png,\n", {}, ["image 1 has no label"]),
        ("path,label\n0.png,a\n1.png,b,c\n", {}, ["line 3 has 3 cells, the first has 2"]),
        ("path,path\n0.png,a\n", {}, ["several columns called path"]),
        ("0.png,a\n1.png,b\n", {}, ["holds a path of an image", "names of the columns"]),
        ("path\n0.png\n1.png\n", {}, ["no column of labels"]),
        ("path,label\n0.png,\"a\nb\"\n1.png,c\n", {}, ["line break", r"'a\nb'"]),
        ("path,label,use\n0.png,a,Training\n1.png,b,PublicTest\n", {}, ["column 'use' holds 'PublicTest'"]),
        ("path,label,use\n0.png,a,train\n1.png,b,holdout\n", {}, ["column 'use' holds 'holdout'"]),
        ("path,label,use\n0.png,a,train\n1.png,b,\n", {}, ["column 'use' holds no value"]),
        ("", {}, ["cannot be read"]),
    ],
)  # fmt: skip
def test_a_faulty_manifest_is_explained(
    pictures: Callable[..., Path], text: str, fields: dict[str, Any], parts: list[str]
) -> None:
    folder = pictures(["0.png", "1.png"])
    (folder / "list.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        load_images(DataConfig(source="images", path=str(folder / "list.csv"), **fields))
    for part in parts:
        assert part in str(caught.value)


def test_folders_of_a_manifest_may_be_parted_as_on_windows(pictures: Callable[..., Path]) -> None:
    folder = pictures(["a/0.png", "a/1.png"])
    (folder / "list.csv").write_text("path,label\na\\0.png,x\na\\1.png,y\n")
    assert (labels(load(folder)), ignored(load(folder))) == (["x", "y"], {})


def test_a_column_of_other_words_than_splits_is_not_used(write_parquet: Write, make_image: MakeImage) -> None:
    loaded = load(write_parquet([make_image(i) for i in range(4)], ["a", "b"] * 2, split=["x"] * 4))
    assert set(loaded.splits) == {"all"}
    assert {column.name: column.role for column in loaded.account.columns}["split"] == "excluded"


def test_a_column_of_splits_may_have_any_name(pictures: Callable[..., Path]) -> None:
    folder = pictures([f"{i}.png" for i in range(4)])
    lines = [f"{i}.png,{'ab'[i % 2]},x,{'Training' if i < 2 else 'TEST'}\n" for i in range(4)]
    (folder / "list.csv").write_text("path,species,kind,Usage\n" + "".join(lines))
    loaded = load(folder, label_column="species")
    assert {split: len(part) for split, part in loaded.splits.items()} == {"train": 2, "test": 2}
    assert loaded.account.splits == "by the column 'Usage'"
    (folder / "list.csv").write_text("path,class\n0.png,train\n1.png,test\n")
    assert set(load(folder).splits) == {"all"}
    (folder / "list.csv").write_text("path,class,a,b\n0.png,x,train,train\n1.png,y,test,test\n")
    with pytest.raises(ConfigError, match=r"could hold the splits \(a, b\)"):
        load(folder)


def test_paths_in_split_folders_ask_for_a_column_of_splits(pictures: Callable[..., Path]) -> None:
    folder = pictures([f"d/{split}/{name}.png" for split in ("Train", "test_images") for name in "ab"])
    rows = [f"d/{split}/{name}.png,{name}" for split in ("Train", "test_images") for name in "ab"]
    (folder / "list.csv").write_text("path,label\n" + "\n".join(rows))
    with pytest.raises(DataError, match="in the folders Train, test_images, but has no column of splits"):
        load(folder)
    (folder / "list.csv").write_text("path,label,split\n" + "\n".join(f"{row},train" for row in rows))
    assert len(load(folder).splits["all"]) == 4
    named = [f"d/{split}/{name}.png,{split}" for split in ("Train", "test_images") for name in "ab"]
    (folder / "list.csv").write_text("path,label\n" + "\n".join(named))
    assert load(folder).label_names == ("Train", "test_images")


def test_labels_keep_their_text_and_the_order_of_numbers(pictures: Callable[..., Path]) -> None:
    folder = pictures([f"{i}.png" for i in range(3)])
    for values, names in (("10 9 2", ("2", "9", "10")), ("007 08 1", ("007", "08", "1")), ("2 0 1", ("0", "1", "2"))):
        lines = [f"{i}.png,{value}\n" for i, value in enumerate(values.split())]
        (folder / "list.csv").write_text("path,label\n" + "".join(lines))
        loaded = load(folder)
        assert (loaded.label_names, labels(loaded)) == (names, values.split())

"""Images that text files list, as for ImageNet-LT and Places-LT."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mntrain.commands.cli import main
from mntrain.config import load_experiment
from mntrain.data.config import DataConfig
from mntrain.data.images import SourceImages
from mntrain.data.loading import load_source, load_unseen_images
from mntrain.errors import ConfigError, DataError
from mntrain.training.run_length import optimizer_steps

SYNSETS = ("n01440764", "n01443537", "n01484850")
COUNTS = {"train": (30, 22, 4), "val": (2, 2, 2), "test": (2, 2, 2)}

Pictures = Callable[[Sequence[str]], Path]


def write_lists(folder: Path, lines: Mapping[str, Sequence[str]], name: str = "ImageNet_LT") -> Path:
    folder.mkdir(exist_ok=True)
    for split, content in lines.items():
        (folder / f"{name}_{split}.txt").write_text("\n".join(content) + "\n")
    return folder


def published_lines() -> dict[str, list[str]]:
    """Lists in the layout of ImageNet-LT, last class first."""
    return {
        split: [
            f"{'val' if split == 'test' else 'train'}/{synset}/{synset}_{split}{number}.png {label}"
            for label, (synset, count) in reversed(list(enumerate(zip(SYNSETS, counts, strict=True))))
            for number in range(count)
        ]
        for split, counts in COUNTS.items()
    }


@pytest.fixture
def layout(tmp_path: Path, pictures: Pictures) -> tuple[Path, Path]:
    """Folder of images, and folder of lists."""
    lines = published_lines()
    images = pictures([line.split()[0] for each in lines.values() for line in each])
    return images, write_lists(tmp_path / "lists", lines)


def load(images: Path, lists: Path | None = None, **fields: Any) -> SourceImages:
    config = DataConfig(source="image-lists", path=str(images), lists=None if lists is None else str(lists), **fields)
    loaded = load_source(config)
    assert isinstance(loaded, SourceImages)
    return loaded


def test_lists_make_the_splits_and_numbers_the_classes(layout: tuple[Path, Path]) -> None:
    loaded = load(*layout)
    assert loaded.label_names == SYNSETS
    found = {name: tuple(np.bincount(part.labels).tolist()) for name, part in loaded.splits.items()}
    assert found == {"train": COUNTS["train"], "validation": COUNTS["val"], "test": COUNTS["test"]}
    assert loaded.names is not None
    assert loaded.names["test"][0] == "val/n01484850/n01484850_test0.png"
    assert "test from ImageNet_LT_test.txt" in loaded.account.splits


def test_lists_may_lie_among_the_images_and_others_beside_them(layout: tuple[Path, Path]) -> None:
    images, lists = layout
    write_lists(images, published_lines())
    write_lists(images, {"open": ["a/b.png 9"]})
    assert load(images).label_names == SYNSETS
    write_lists(lists, {"train": ["a/b.png 0"]}, name="Places_LT")
    with pytest.raises(DataError, match="two lists of the train split"):
        load(images, lists)
    assert load(images, lists / "ImageNet_LT").label_names == SYNSETS


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("tench\ngoldfish\nwhite shark\n", ("tench", "goldfish", "white shark")),
        ("/s/shark 2\n/t/tench 0\n/g/goldfish 1\n", ("/t/tench", "/g/goldfish", "/s/shark")),
        (
            "n01484850 white shark\nn01440764 tench, Tinca tinca\nn01443537 goldfish\nn09 other\n",
            ("n01440764 tench, Tinca tinca", "n01443537 goldfish", "n01484850 white shark"),
        ),
    ],
)
def test_names_come_from_a_file(layout: tuple[Path, Path], tmp_path: Path, content: str, names: Sequence[str]) -> None:
    (tmp_path / "names.txt").write_text(content)
    assert load(*layout, class_names=str(tmp_path / "names.txt")).label_names == tuple(names)


def test_nested_folders_are_named_below_what_they_share(tmp_path: Path, pictures: Pictures) -> None:
    lines = ["data/a/apartment/outdoor/1 1.png 0", "data/b/bar/2.png 1", "data/b/bar/3.png 1"] * 1
    images = pictures([line.rpartition(" ")[0] for line in lines])
    assert load(images, write_lists(tmp_path / "l", {"train": lines})).label_names == ("a/apartment/outdoor", "b/bar")


def test_classes_of_several_folders_are_named_by_numbers(tmp_path: Path, pictures: Pictures) -> None:
    lines = ["x/1.png 0", "y/2.png 0", "y/3.png 1"]
    images = pictures([line.split()[0] for line in lines])
    assert load(images, write_lists(tmp_path / "l", {"train": lines})).label_names == ("0", "1")


def test_missing_images_are_counted_named_and_may_be_left_out(layout: tuple[Path, Path]) -> None:
    images, _ = layout
    for number in (3, 5):
        (images / f"train/n01440764/n01440764_train{number}.png").unlink()
    with pytest.raises(DataError, match=r"2 of the 68 listed images are not in .*n01440764_train3\.png.*leave_out"):
        load(*layout)
    loaded = load(*layout, missing_images="leave_out")
    assert np.bincount(loaded.splits["train"].labels).tolist() == [28, 22, 4]
    assert {entry.reason: entry.count for entry in loaded.account.ignored} == {"images of a list that are not there": 2}


def test_a_wrong_folder_is_told_as_such(layout: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"None of the 56 images .* set data\.path"):
        load(tmp_path, layout[1])


def test_a_class_without_an_image_left_is_refused(layout: tuple[Path, Path]) -> None:
    for file in (layout[0] / "train/n01443537").glob("*_train*"):
        file.unlink()
    with pytest.raises(DataError, match="1 of them have no image there: 1"):
        load(*layout, missing_images="leave_out")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({"train": ["a/1.png 0", "b/2.png 2"]}, "numbers its classes up to 2, but 1 of them have no image there: 1"),
        ({"train": ["a/1.png 0", "b/2.png"]}, "line 2: 'b/2.png' is no path followed by the number"),
        ({"train": ["a/1.png 0", "b/2.png -1"]}, "line 2"),
        ({"train": ["a/1.png 0", "a/1.png 1"]}, "'a/1.png' twice, in the classes 0 and 1"),
        ({"train": ["a/1.png 0", "b/2.png 1"], "test": ["b/2.png 4"]}, "does not have: 4"),
        ({"train": ["a/1.png 0", "./a/../a/1.png 1"]}, r"line 2: './a/\.\./a/1.png' leads out of the folder"),
        ({"train": ["a/1.png 0", "./a//1.png 1"]}, "'./a//1.png' twice, in the classes 0 and 1"),
        ({"train": ["a/1.png 0", "../secret.png 1"]}, r"_train.txt', line 2: '../secret.png' leads out .* data\.path"),
        ({"train": ["a/1.png 0"], "test": ["/etc/secret.png 0"]}, "_test.txt', line 1: '/etc/secret.png' leads out"),
        ({"train": [""]}, "holds no image"),
        ({"test": ["a/1.png 0"]}, "holds no list of training images"),
    ],
)
def test_wrong_lists_are_told(
    tmp_path: Path, pictures: Pictures, lines: Mapping[str, Sequence[str]], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        load(pictures(["a/1.png", "b/2.png"]), write_lists(tmp_path / "l", lines))


def test_an_image_that_is_named_twice_in_its_class_counts_once_and_is_told(tmp_path: Path, pictures: Pictures) -> None:
    images = pictures(["a/1.png", "a/2.png", "b/3.png"])
    lines = ["a/1.png 0", "a/2.png 0", "./a/1.png 0", "b/3.png 1", "a/1.png 0"]
    loaded = load(images, write_lists(tmp_path / "l", {"train": lines, "test": lines[:1]}))
    assert np.bincount(loaded.splits["train"].labels).tolist() == [2, 1]
    told = {entry.reason: entry.count for entry in loaded.account.ignored}
    assert told["lines of a list that name an image again"] == 2


def test_wrong_places_and_names_are_told(layout: tuple[Path, Path], tmp_path: Path) -> None:
    images, lists = layout
    with pytest.raises(DataError, match=r"check data\.lists"):
        load(images, tmp_path / "none" / "x")
    with pytest.raises(DataError, match="is no folder"):
        load(tmp_path / "none", lists)
    (tmp_path / "names.txt").write_text("one\ntwo\n")
    with pytest.raises(DataError, match="has 2 lines, but the lists have 3 classes"):
        load(images, lists, class_names=str(tmp_path / "names.txt"))
    with pytest.raises(DataError, match=r"data\.class_names is .*none\.txt"):
        load(images, lists, class_names=str(tmp_path / "none.txt"))
    with pytest.raises(ConfigError, match=r"data\.lists is 'x', but data\.source 'digits' has no use"):
        DataConfig(lists="x")
    with pytest.raises(ConfigError, match=r"data\.missing_images is 'skip'"):
        DataConfig(source="image-lists", path="x", missing_images="skip")  # type: ignore[arg-type]


def test_lists_of_unseen_images_need_no_training_list(tmp_path: Path, pictures: Pictures) -> None:
    images = pictures(["v/a/1.png", "v/b/2.png"])
    lists = write_lists(tmp_path / "l", {"test": ["v/a/1.png 1", "v/b/2.png 3"]})
    loaded = load_unseen_images(DataConfig(source="image-lists", path=str(images), lists=str(lists)))
    assert [loaded.label_names[label] for label in next(iter(loaded.splits.values())).labels] == ["1", "3"]


@pytest.mark.parametrize("recipe", ["imagenet-lt", "places-lt"])
def test_recipes_are_of_stage_one(recipe: str) -> None:
    config = load_experiment(recipe)
    training = config.training
    assert (training.optimizer, training.learning_rate, training.schedule) == ("sgd", 0.2, "cosine")
    assert (training.batch_size, training.weight_decay, training.epochs) == (512, 5e-4, 90)
    assert (config.data.image_size, config.backbone.name, config.family) == (224, "resnet56", "vanilla")
    images = {"imagenet-lt": 115_846, "places-lt": 62_500}[recipe]
    assert optimizer_steps(training, images) == 90 * -(-images // 512)


@pytest.mark.parametrize(("recipe", "name"), [("imagenet-lt", "ImageNet_LT"), ("places-lt", "Places_LT")])
def test_recipes_start_on_generated_data(
    recipe: str,
    name: str,
    layout: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    images = layout[0]
    lists = write_lists(tmp_path / "named", published_lines(), name=name)
    words = ["--data.path", str(images), "--data.lists", str(lists), "--data.image_size", "16"]
    words += ["--augmentation.crop_padding", "2", "--backbone.width", "0.1", "--backbone.name", "resnet29"]
    assert main(["data", recipe, *words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["splits"]["train"]["classes"] == dict(zip(SYNSETS, COUNTS["train"], strict=True))
    words += ["--training.epochs", "1", "--training.batch_size", "16", "--training.sampling", "square_root"]
    assert main(["fit", recipe, *words, "--name", "lt", "--runs", str(tmp_path / "runs")]) == 0
    test = json.loads((tmp_path / "runs/lt/metrics.json").read_text())["test"]
    assert {"accuracy_medium", "accuracy_few"} <= test.keys()
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "runs/lt/artifact")]) == 0
    assert "accuracy by training examples of a class: medium" in capsys.readouterr().out

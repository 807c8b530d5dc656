"""Recipes on the data they were written for, and with the settings that were published."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from mntrain.config import load_experiment
from mntrain.data.loading import load_images
from mntrain.training.fit import fit
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.run_folder import FitOptions


def test_pacs_holds_out_images_of_all_domains_together(shared_data: Path) -> None:
    config = load_experiment("pacs", ["--data.path", str(shared_data / "pacs-64")])
    data = load_images(config.data)
    assert (data.channels, data.height, data.width, data.num_classes) == (3, 32, 32, 7)
    assert sum(data.split.counts.values()) == 9991
    assert data.split.counts["test"] == pytest.approx(0.2 * 9991, abs=7)


@pytest.mark.parametrize(
    ("recipe", "backbone", "entries"),
    [("cifar10-resnet29", "resnet29", 5000), ("cifar100-densenet40bc", "densenet40bc", 10000)],
)
def test_published_recipes_have_the_papers_settings(recipe: str, backbone: str, entries: int) -> None:
    config = load_experiment(recipe)
    assert (config.backbone.name, config.model.entries) == (backbone, entries)
    training = config.training
    assert (training.epochs, training.drop_epoch, training.batch_size, training.learning_rate) == (400, 300, 128, 1e-3)


@pytest.mark.parametrize("dataset", ["cinic10", "tiny-imagenet"])
@pytest.mark.parametrize("backbone", ["densenet40bc", "resnet29", "resnet56"])
def test_the_rate_drops_at_epoch_250_of_350(dataset: str, backbone: str) -> None:
    training = load_experiment(f"{dataset}-{backbone}").training
    assert (training.epochs, training.drop_epoch) == (350, 250)


@pytest.mark.parametrize(
    ("recipe", "file", "classes", "test"),
    [
        ("tiny-imagenet-100", "tiny-imagenet-32-100classes", 100, 5000),
        ("omniglot", "omniglot-8alphabets/background.parquet", 242, 968),
        ("omniglot-cnn4", "omniglot-8alphabets/background.parquet", 183, 366),  # six of the eight alphabets
    ],
)
def test_recipes_of_local_sets_find_their_images(
    shared_data: Path, recipe: str, file: str, classes: int, test: int
) -> None:
    data = load_images(load_experiment(recipe, ["--data.path", str(shared_data / file)]).data)
    assert (data.num_classes, data.split.counts["test"]) == (classes, test)


def test_the_recipes_of_table_6_differ_by_their_network_alone() -> None:
    small, large = load_experiment("mini-imagenet-cnn4"), load_experiment("mini-imagenet-cnn9")
    assert (small.backbone.name, large.backbone.name) == ("cnn4", "cnn9")
    assert replace(large, name=small.name, backbone=small.backbone) == small


def test_the_recipe_for_own_images_takes_pictures_of_any_size(tmp_path: Path) -> None:
    for number in range(12):
        file = tmp_path / "pictures" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30 + number, 80), (number, 20, 20)).save(file)
    data = load_images(load_experiment("images", ["--data.path", str(tmp_path / "pictures")]).data)
    assert (data.channels, data.height, data.width, data.label_names) == (3, 64, 64, ("a", "b"))
    assert (data.train.images[:, :, :, 0] == 0).all()  # upright pictures are padded at their sides
    assert data.account.pixels == "12 scaled and padded to 64x64; RGB, 3 channels"


@pytest.mark.parametrize(
    ("recipe", "images", "steps", "drops"),
    [
        ("cifar10-cnn9", 45_000, 64_000, (34_000, 54_000)),
        ("cifar100-cnn9", 45_000, 64_000, (34_000, 54_000)),
        ("imagenet-cnn10", 1_255_544, 600_000, (200_000, 375_000, 550_000)),
    ],
)
def test_plain_networks_make_the_published_steps(recipe: str, images: int, steps: int, drops: tuple[int, ...]) -> None:
    """Within two epochs of CIFAR and of ImageNet, whose rates fall between epochs."""
    training = load_experiment(recipe).training
    assert (training.optimizer, training.momentum, training.learning_rate) == ("sgd", 0.9, 0.1)
    assert (training.batch_size, training.weight_decay) == (128, 5e-4)
    epoch_steps = -(-images // training.batch_size)
    rates = [learning_rate_at(epoch, training) for epoch in range(training.epochs)]
    falls = [epoch * epoch_steps for epoch in range(1, training.epochs) if rates[epoch] < rates[epoch - 1]]
    assert training.epochs * epoch_steps == pytest.approx(steps, abs=epoch_steps)
    assert falls == pytest.approx(drops, abs=epoch_steps)
    assert rates[-1] == pytest.approx(0.1 * 0.1 ** len(drops))


def test_imagenet_trains_on_class_folders_and_tests_on_those_called_val(tmp_path: Path) -> None:
    folder, sizes = tmp_path / "imagenet", [(250, 230), (300, 400), (64, 80)]
    for split, count in (("train", 60), ("val", 6)):
        for number in range(count):
            file = folder / split / f"n0{number % 3}" / f"{number}.JPEG"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", sizes[number % len(sizes)], (number, 200 - number, 90 * (number % 3))).save(file)
    words = ["--data.path", str(folder), "--training.epochs", "1", "--training.batch_size", "20"]
    config = load_experiment("imagenet-cnn10", [*words, "--backbone.width", "0.05", "--training.accelerator", "cpu"])
    metrics = fit(config, FitOptions(runs=tmp_path / "runs", quiet=True))
    assert metrics is not None
    assert (config.backbone.name, metrics["steps"]) == ("cnn10", 3)  # two of the 60 are for validation
    assert metrics["test"]["accuracy"] * 6 == pytest.approx(round(metrics["test"]["accuracy"] * 6))  # of 6 images

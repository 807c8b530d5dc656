"""Runs of one seed differ in nothing but their variant: they start from one head and see the same images."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from mntrain.comparison.similarity_rows import SIMILARITY_ROWS
from mntrain.comparison.variants import BUILT_IN
from mntrain.config import load_experiment
from mntrain.models.base import Batch, TrainingPhase
from mntrain.models.families import FAMILIES
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.run_folder import FitOptions

AUGMENTED = ["--augmentation.crop_padding", "2", "--backbone.width", "0.084"]
# A backbone that drops features at random, too.
DROPPING = ("--backbone.name", "densenet40bc")
SMALL = ["--data.train_limit", "40", "--training.batch_size", "8", "--training.accelerator", "cpu"]
OWN = {
    "mn-per-batch": ("--meta_neighborhoods.dropout_mode", "per_batch"),
    "mn-auxiliary": ("--meta_neighborhoods.auxiliary", "1"),
}


class Start(NamedTuple):
    """Weights before training, and the first two batches."""

    head: Tensor
    backbone: dict[str, Tensor]
    images: list[Tensor]


class _Enough(Exception):
    pass


def start_of(words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    step = Trainer._step
    seen: list[Start] = []

    def watched(self: Trainer, phase: TrainingPhase, batch: Batch, total: int) -> Any:
        model: Any = self.model
        if not seen:
            convolutions = {
                name: value.detach().clone() for name, value in model.backbone.state_dict().items() if value.dim() == 4
            }
            seen.append(Start(model.head.weight.detach().clone(), convolutions, []))
        seen[0].images.append(batch.inputs.clone())
        if len(seen[0].images) == 2:
            raise _Enough
        return step(self, phase, batch, total)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", watched)
        config = load_experiment("digits", [*AUGMENTED, *SMALL, "--seed", "3", *words])
        with pytest.raises(_Enough):
            fit(config, FitOptions(runs=folder, quiet=True))
    return seen[0]


def test_all_variants_of_a_comparison_start_alike_and_see_the_same_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The head of vanilla-equal stands on its extra layer: the test of that layer below looks at it.
    apart = {"vanilla-equal", *(row.name for row in SIMILARITY_ROWS)}
    words = {name: variant.words for name, variant in BUILT_IN.items() if name not in apart} | OWN
    starts = {name: start_of(words[name], tmp_path / name, monkeypatch) for name in words}
    assert_paired(starts)
    vanilla = starts["vanilla"]
    assert not torch.equal(vanilla.images[0], start_of(("--seed", "4"), tmp_path / "other", monkeypatch).images[0])


def test_rows_of_neural_similarity_start_with_the_same_kernels_and_see_the_same_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row.name for row in SIMILARITY_ROWS if "--backbone.width" not in row.words]
    of_cnn9, narrow = ("--backbone.name", "cnn9"), ("--backbone.similarity.hidden", "4")
    words = {row: (*of_cnn9, *BUILT_IN[row].words, *(narrow if row.startswith("dynamic") else ())) for row in rows}
    starts = {row: start_of(words[row], tmp_path / row, monkeypatch) for row in rows}
    kernels = starts["cnn"].backbone.keys()
    assert len(kernels) == 10
    assert starts["dynamic-dns"].backbone.keys() > kernels
    shared = {
        row: start._replace(backbone={name: start.backbone[name] for name in kernels}) for row, start in starts.items()
    }
    assert_paired({"vanilla": shared.pop("cnn"), **shared})


def test_families_whose_backbones_drop_features_see_the_same_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {family: ("--family", family, *DROPPING) for family in FAMILIES}
    assert_paired({name: start_of(words[name], tmp_path / name, monkeypatch) for name in words})


def assert_paired(starts: dict[str, Start]) -> None:
    vanilla = starts["vanilla"]
    for name, found in starts.items():
        classes, features = vanilla.head.shape
        assert torch.equal(found.head[:classes, :features], vanilla.head), f"{name} starts with another head"
        of_backbone = found.backbone.values()
        assert all(map(torch.equal, of_backbone, vanilla.backbone.values())), f"{name} starts with another backbone"
        for number, (images, others) in enumerate(zip(found.images, vanilla.images, strict=True), start=1):
            assert torch.equal(images, others), f"{name} sees other images in batch {number}"


def test_an_extra_layer_leaves_backbone_and_images_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = start_of(("--family", "vanilla"), tmp_path / "plain", monkeypatch)
    wide = start_of(("--family", "vanilla", "--vanilla.extra_parameters", "500"), tmp_path / "wide", monkeypatch)
    assert all(map(torch.equal, plain.backbone.values(), wide.backbone.values()))
    assert all(map(torch.equal, plain.images, wide.images))


def test_the_check_above_sees_a_dictionary_that_draws_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that it can fail: entries that drop by the global generator, as long as nobody seeds their own."""
    vanilla = start_of(("--family", "vanilla"), tmp_path / "vanilla", monkeypatch)
    monkeypatch.setattr(MetaNeighborhoods, "seed_draws", lambda self, seed: None)
    shared = start_of(
        ("--family", "meta_neighborhoods", "--meta_neighborhoods.init", "paper"), tmp_path / "mn", monkeypatch
    )
    assert torch.equal(shared.images[0], vanilla.images[0])
    assert not torch.equal(shared.images[1], vanilla.images[1])

"""Start of a dictionary from training examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mntrain.errors import ConfigError
from mntrain.layers.attention import unit
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.start import class_start, entry_counts, row_start, warm_up_epochs
from mntrain.models.queries import mean_weight_change

FEATURES, CLASSES = 6, 3


class Flat(nn.Module):
    features = FEATURES

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def config(**settings: Any) -> MetaNeighborhoodsConfig:
    values: dict[str, Any] = {"init": "data", "entries": 12} | settings
    return MetaNeighborhoodsConfig(**values)


def blobs(per_class: int = 40) -> tuple[Tensor, Tensor]:
    """Two clusters a class, far from one another: six directions."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.eye(FEATURES) * 5
    labels = torch.arange(FEATURES).repeat_interleave(per_class // 2)
    points = centers[labels] + 0.1 * torch.randn(len(labels), FEATURES, generator=generator)
    return points, labels % CLASSES


def placed(**settings: Any) -> MetaNeighborhoods:
    torch.manual_seed(0)
    model = MetaNeighborhoods.from_config(config(**settings), Flat, CLASSES).eval()
    model.start_from(*blobs(), seed=0)
    return model


@pytest.mark.parametrize(
    ("sizes", "entries", "by", "expected"),
    [
        ([60, 30, 10], 10, "class_size", [6, 3, 1]),
        ([60, 30, 10], 9, "even", [3, 3, 3]),
        ([98, 1, 1], 10, "class_size", [8, 1, 1]),
        ([5, 0, 5], 4, "even", [2, 0, 2]),
        ([5, 9, 7], 2, "class_size", [0, 1, 1]),
        ([1, 1, 1], 3, "class_size", [1, 1, 1]),
    ],
)
def test_entries_are_shared_among_classes(sizes: list[int], entries: int, by: Any, expected: list[int]) -> None:
    assert entry_counts(np.array(sizes), entries, by).tolist() == expected


@pytest.mark.parametrize("source", ["centers", "examples"])
@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "distance"])
@pytest.mark.parametrize("head", ["cosine", "dot"])
def test_entries_stand_among_examples_of_their_class(source: str, similarity: str, head: str) -> None:
    model = placed(key_source=source, similarity=similarity, head=head)
    points, targets = blobs()
    nearest = model.comparable_similarity(points, slice(None)).argmax(dim=0)
    assert torch.equal(targets[nearest], model.entry_labels())
    assert torch.bincount(model.entry_labels()).tolist() == [4, 4, 4]
    torch.testing.assert_close(model.entry_values().max(dim=-1).values, torch.full((12,), 0.99))
    assert mean_weight_change(model, points) == pytest.approx(0.2, rel=0.02)


def test_centers_are_means_of_directions_and_drawn_keys_are_examples() -> None:
    points, targets = blobs()
    centers, _ = class_start(points, targets, config(entries=6), CLASSES, seed=0)
    means = torch.stack([unit(points[i * 20 : (i + 1) * 20]).mean(0) for i in range(FEATURES)])
    closest = (unit(centers) @ unit(means).mT).max(dim=-1).values
    torch.testing.assert_close(closest, torch.ones(6))
    torch.testing.assert_close(centers.norm(dim=-1), torch.full((6,), math.sqrt(FEATURES)))
    drawn, _ = class_start(points, targets, config(entries=6, key_source="examples"), CLASSES, seed=0)
    torch.testing.assert_close((unit(drawn) @ unit(points).mT).max(dim=-1).values, torch.ones(6))


@pytest.mark.parametrize("settings", [{"steps": 3}, {"step_size_form": "per_parameter"}, {"start_change": 0.5}])
def test_the_step_size_changes_the_weights_as_far_as_stated(settings: dict[str, Any]) -> None:
    model = placed(**settings)
    wanted = settings.get("start_change", 0.2)
    assert mean_weight_change(model, blobs()[0]) == pytest.approx(wanted, rel=0.02)


def test_fixed_values_are_the_classes_and_one_seed_gives_one_start() -> None:
    fixed = placed(values="fixed")
    assert torch.bincount(fixed.entry_labels()).tolist() == [4, 4, 4]
    assert set(fixed.entry_values().flatten().tolist()) == {0.0, 1.0}
    one, other = placed(), placed()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    other.start_from(*blobs(), seed=1)
    assert not torch.equal(one.dictionary.keys, other.dictionary.keys)


def test_more_entries_than_examples_repeat_them_a_little_apart() -> None:
    points, targets = blobs(per_class=4)
    keys, counts = class_start(points, targets, config(entries=30), CLASSES, seed=0)
    assert counts.tolist() == [10, 10, 10]
    assert len({tuple(key.tolist()) for key in keys}) == 30
    labels = torch.arange(CLASSES).repeat_interleave(10)
    nearest = (unit(keys) @ unit(points).mT).max(dim=-1)
    assert torch.equal(targets[nearest.indices], labels)
    assert nearest.values.min().item() > 0.99


def test_equal_examples_and_a_class_without_any_are_no_obstacle() -> None:
    points = torch.ones(20, FEATURES)
    targets = torch.tensor([0, 2]).repeat(10)
    keys, counts = class_start(points, targets, config(entries=6), CLASSES, seed=0)
    assert counts.tolist() == [3, 0, 3]
    assert bool(torch.isfinite(keys).all())


def test_keys_of_rows_have_the_mean_target_of_what_they_stand_for() -> None:
    rows = torch.tensor([[0.0, 0.0], [0.0, 0.2], [5.0, 5.0], [5.0, 5.2]])
    values = torch.tensor([[1.0, 10.0], [3.0, 30.0], [-1.0, 0.0], [-2.0, 0.0]])
    keys, targets = row_start(rows, values, config(entries=2), seed=0)
    order = keys[:, 0].argsort()
    torch.testing.assert_close(keys[order], torch.tensor([[0.0, 0.1], [5.0, 5.1]]))
    torch.testing.assert_close(targets[order], torch.tensor([[2.0, 20.0], [-1.5, 0.0]]))
    keys, targets = row_start(rows, values, config(entries=6), seed=0)
    torch.testing.assert_close(targets, values[[0, 1, 2, 3, 0, 1]])
    torch.testing.assert_close(keys, rows[[0, 1, 2, 3, 0, 1]], atol=0.2, rtol=0)


@pytest.mark.parametrize(
    ("warm_up", "epochs", "needed", "expected"),
    [
        (None, 12, True, 9),
        (None, 12, False, 0),
        (0.5, 12, False, 6),
        (3, 12, True, 3),
        (0.0, 12, True, 0),
        (None, 1, True, 0),
        (0.99, 3, True, 2),
    ],
)
def test_warm_up_is_a_share_or_a_number_of_epochs(
    warm_up: float | None, epochs: int, needed: bool, expected: int
) -> None:
    assert warm_up_epochs(config(warm_up=warm_up), epochs, needed=needed) == expected
    assert warm_up_epochs(MetaNeighborhoodsConfig(warm_up=warm_up), epochs, needed=needed) is None


def test_a_warm_up_that_leaves_no_epoch_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"warm_up is 12 epochs, but training.epochs is 12"):
        warm_up_epochs(config(warm_up=12), 12, needed=True)


def test_a_confidence_no_better_than_uniform_values_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"confidence is 0\.3; among 3 classes it must be above 0\.3333"):
        MetaNeighborhoods.from_config(config(confidence=0.3), Flat, CLASSES)
    model = placed(confidence=0.4)
    assert torch.bincount(model.entry_labels()).tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("warm_up", -0.1),
        ("warm_up", 1.5),
        ("confidence", 1.0),
        ("confidence", 0),
        ("start_change", 0),
        ("init", "rows"),
        ("key_source", "rows"),
        ("entries_by", "rows"),
    ],
)
def test_settings_that_cannot_be_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"meta_neighborhoods.{field} is"):
        config(**{field: value})

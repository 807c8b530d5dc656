"""Kernel shapes: which taps stay, and how their scores learn (eq. 5)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from mntrain.errors import TrainingError
from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.conv import SimilarityConv
from mntrain.layers.similarity.shape import KernelShape, chosen_taps, require_taps


def test_taps_above_the_threshold_stay() -> None:
    scores = torch.tensor([0.2, 0.6, -1.0, 0.5])
    assert chosen_taps(scores, 0.5, 0).tolist() == [0, 1, 0, 0]
    assert chosen_taps(scores, 0.1, 0).tolist() == [1, 1, 0, 1]


def test_of_equal_taps_those_nearest_to_the_middle_stay() -> None:
    """A network of shifts starts as one of 1×1 convolutions, and not as one that looks up and to the left."""
    assert chosen_taps(torch.ones(9), 0.5, 1).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert chosen_taps(torch.ones(9), 0.5, 5).tolist() == [0, 1, 0, 1, 1, 1, 0, 1, 0]
    assert chosen_taps(torch.ones(25), 0.5, 1).tolist().index(1) == 12


def test_at_most_so_many_taps_stay() -> None:
    assert chosen_taps(torch.ones(4), 0.5, 1).tolist() == [1, 0, 0, 0]
    assert chosen_taps(torch.tensor([0.6, 0.9, 0.2, 0.8]), 0.5, 2).tolist() == [0, 1, 0, 1]
    assert chosen_taps(torch.tensor([0.6, 0.1, 0.2, 0.3]), 0.5, 3).tolist() == [1, 0, 0, 0]


def test_scores_move_by_the_gradient_of_the_mask() -> None:
    """Eq. 5: D_r − η ∂L/∂D, for taps that are off, too."""
    shape = KernelShape(3, 0.5)
    with torch.no_grad():
        shape.scores.copy_(torch.tensor([1.0, 0.0, 0.8]))
    along = torch.tensor([2.0, -3.0, 0.25])
    (shape() * along).sum().backward()
    assert shape.scores.grad is not None
    assert shape.scores.grad.tolist() == along.tolist()


def test_forward_mode_follows_the_same_rule() -> None:
    along = torch.tensor([2.0, -3.0, 0.25])
    with forward_ad.dual_level():
        shape = KernelShape(3, 0.5)
        scores = forward_ad.make_dual(shape.scores.detach(), along)  # type: ignore[no-untyped-call]
        mask = torch.func.functional_call(shape, {"scores": scores}, ())
        tangent = forward_ad.unpack_dual(mask).tangent  # type: ignore[no-untyped-call]
    assert tangent.tolist() == along.tolist()


def test_a_tap_that_is_off_has_no_part_in_the_answer() -> None:
    layer = SimilarityConv(2, 3, Window(3, padding=1), SimilarityConfig(mode="static", kernel_shape=True))
    assert layer.shape is not None
    with torch.no_grad():
        layer.shape.scores[4] = 0.0
    maps = torch.zeros(1, 2, 5, 5)
    maps[0, :, 2, 2] = 1.0
    answers = layer(maps)
    assert answers[0, :, 2, 2].abs().max() == 0
    assert answers[0, :, 1, 1].abs().min() > 0


def test_the_penalty_is_the_norm_of_the_scores_times_its_factor() -> None:
    shape = KernelShape(4, 0.5, factor=0.25)
    with torch.no_grad():
        shape.scores[0] = -3.0
    penalty = shape.penalty()
    assert penalty is not None
    assert penalty.item() == 0.25 * 6
    assert KernelShape(4, 0.5).penalty() is None


def test_a_layer_without_taps_is_named_with_the_settings_that_emptied_it() -> None:
    config = SimilarityConfig(mode="static", kernel_shape=True, shape_threshold=0.75, shape_penalty=0.125)
    network = nn.Sequential(*(SimilarityConv(2, 2, Window(3), config) for _ in range(2)))
    shape = network[1].shape
    assert isinstance(shape, KernelShape)
    with torch.no_grad():
        shape.scores.fill_(0.5)
        shape.scores[3] = 0.8
    require_taps(network, 4)
    with torch.no_grad():
        shape.scores[3] = 0.75
    with pytest.raises(TrainingError) as caught:
        require_taps(network, 4)
    message = str(caught.value)
    assert "layer 1 has no tap left after epoch 4" in message
    assert "highest score, 0.75, is not above backbone.similarity.shape_threshold, 0.75" in message
    assert "backbone.similarity.shape_penalty (0.125 now)" in message

"""Hyperspherical convolution against angles that are computed one by one."""

from __future__ import annotations

import math

import pytest
import torch

from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.sphere import Measure, by_measure, orthogonality, patch_scales, sphere_conv

MAPS = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
KERNEL = torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def expected(measure: Measure, normalise: str) -> float:
    """The answer of filter 2 at position (3, 1)."""
    patch, kernel = MAPS[0, :, 2:5, 0:3].flatten(), KERNEL[2].flatten()
    norm = math.sqrt(float(patch @ patch) + 1e-4)
    if normalise == "both":
        norm *= math.sqrt(float(kernel @ kernel) + 1e-4)
    cosine = float(patch @ kernel) / norm
    if measure == "cosine":
        return cosine
    angle, steep = math.acos(cosine), 0.3
    if measure == "linear":
        return 1 - 2 * angle / math.pi
    low, here = math.exp(-math.pi / (2 * steep)), math.exp(angle / steep - math.pi / (2 * steep))
    return (1 + low) / (1 - low) * (1 - here) / (1 + here)


@pytest.mark.parametrize(
    ("measure", "normalise"),
    [("cosine", "input"), ("cosine", "both"), ("linear", "both"), ("sigmoid", "both")],
)
def test_answers_are_functions_of_the_angle(measure: Measure, normalise: str) -> None:
    answers = sphere_conv(MAPS, KERNEL, Window(3, padding=1), "both" if normalise == "both" else "input", measure)
    assert answers[0, 2, 3, 1].item() == pytest.approx(expected(measure, normalise), rel=1e-9)


@pytest.mark.parametrize("measure", ["linear", "sigmoid"])
def test_measures_go_from_minus_one_to_one_and_have_finite_slopes_at_the_ends(measure: Measure) -> None:
    cosines = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    answers = by_measure(cosines, measure)
    torch.testing.assert_close(answers.detach(), torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), atol=2e-3, rtol=0)
    answers.sum().backward()
    assert cosines.grad is not None
    assert cosines.grad.isfinite().all()


def test_norms_of_groups_are_those_of_their_own_channels() -> None:
    window = Window(3, 2, 1, groups=2)
    together = patch_scales(MAPS, window)
    apart = [patch_scales(MAPS[:, part], window._replace(groups=1)) for part in (slice(0, 2), slice(2, 4))]
    torch.testing.assert_close(together, torch.cat(apart, dim=1))
    answers = sphere_conv(MAPS, KERNEL[:, :2], window, "both", "cosine")
    for group, part in enumerate((slice(0, 2), slice(2, 4))):
        filters = slice(3 * group, 3 * group + 3)
        alone = sphere_conv(MAPS[:, part], KERNEL[filters, :2], window._replace(groups=1), "both", "cosine")
        torch.testing.assert_close(answers[:, filters], alone)


def test_norms_are_sums_in_single_precision_whatever_the_maps_are() -> None:
    window = Window(3, padding=1)
    maps = 300 * torch.ones(1, 8, 4, 4, dtype=torch.float16)  # a sum of squares beyond float16
    assert patch_scales(maps, window)[0, 0, 1, 1].item() == pytest.approx(1 / (300 * math.sqrt(72)), rel=1e-3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = patch_scales(MAPS.float(), window)
    torch.testing.assert_close(found, patch_scales(MAPS.float(), window), atol=0, rtol=0)


def test_the_penalty_counts_products_of_different_filters_alone() -> None:
    filters = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])[:, :, None, None]
    assert orthogonality(filters[:2]).item() == pytest.approx(0, abs=1e-12)
    assert orthogonality(filters).item() == pytest.approx(4 * 0.5)

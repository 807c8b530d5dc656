"""What is read off similarities, against the answers of their layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from mntrain.analysis.similarity import learned_similarities
from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.config import GlobalMode, Kind, SimilarityConfig
from mntrain.layers.similarity.conv import SimilarityConv
from mntrain.layers.similarity.global_similarity import GlobalSimilarity
from mntrain.layers.similarity.predictor import SimilarityPredictor


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def drawn(layer: nn.Module, seed: int = 3) -> nn.Module:
    """Draw all parameters, and drop two taps of a kernel shape."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    if isinstance(layer, SimilarityConv) and layer.shape is not None:
        layer.shape.scores.copy_(torch.tensor([1.0, 0.2, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0, 1.0]))
    return layer.eval()


def convolution(kind: Kind, *, dynamic: bool) -> SimilarityConv:
    config = SimilarityConfig(mode="static", kind=kind, kernel_shape=True)
    if dynamic:
        config = replace(config, mode="dynamic", hidden=4)
    window = Window(3)
    predictor = SimilarityPredictor(2, window, config, torch.Generator().manual_seed(0)) if dynamic else None
    layer = drawn(SimilarityConv(2, 5, window, config, predictor))
    assert isinstance(layer, SimilarityConv)
    return layer


def images(count: int, side: int = 3) -> Tensor:
    return torch.randn(count, 2, side, side, generator=torch.Generator().manual_seed(5))


def as_matrix(similarity: Tensor) -> Tensor:
    return similarity.diag() if similarity.dim() == 1 else similarity


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", ["diagonal", "unconstrained"])
def test_the_matrix_is_the_one_that_the_layer_answers_with(kind: Kind, dynamic: bool) -> None:
    """Images of 3×3 have one position, so that the mean over positions of one image is its M."""
    network, image = nn.Sequential(convolution(kind, dynamic=dynamic)), images(1)
    found = learned_similarities(network, image, 1)
    assert found is not None
    [layer] = found.layers
    weight = network[0].weight
    assert isinstance(weight, Tensor)
    matrix = as_matrix(layer.mean)
    # y = Σ_c Σ_ij w_ci M_ij x_cj
    expected = torch.einsum("oci,ij,cj->o", weight.flatten(2), matrix, image[0].flatten(1))
    torch.testing.assert_close(network(image)[0].flatten(), expected, rtol=1e-4, atol=1e-4)
    assert layer.distance == pytest.approx(float((matrix - torch.eye(9)).norm()), rel=1e-5)
    assert (layer.name, layer.kernel, layer.taps, layer.diagonal) == ("0", 3, 7, kind == "diagonal")
    assert matrix[1].abs().max() == matrix[6].abs().max() == 0


@pytest.mark.parametrize("kind", ["diagonal", "unconstrained"])
def test_mean_and_deviation_are_those_of_all_images_and_positions(kind: Kind) -> None:
    network, given = nn.Sequential(convolution(kind, dynamic=True)), images(4, side=5)
    found = learned_similarities(network, given, 2)
    assert found is not None
    [layer] = found.layers
    matrices, distances = [], []
    for image in range(4):
        for row in range(3):
            for column in range(3):
                # The second kernel of the predictor looks at the neighbors of a position: predict on the whole image.
                one = network[0].predictor(given[image : image + 1])[0, :, row, column]  # type: ignore[operator]
                mask = network[0].shape()  # type: ignore[operator]
                matrix = one * mask if kind == "diagonal" else one.view(9, 9) * mask[:, None]
                matrices.append(matrix)
                distances.append(float((as_matrix(matrix) - torch.eye(9)).norm()))
    stacked = torch.stack(matrices)
    assert layer.deviation is not None
    assert layer.maps is not None
    torch.testing.assert_close(layer.mean, stacked.mean(dim=0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer.deviation, stacked.std(dim=0, correction=0), rtol=1e-4, atol=1e-5)
    assert layer.distance == pytest.approx(sum(distances) / 36, rel=1e-5)
    if kind == "diagonal":
        expected = stacked[:18].view(2, 3, 3, 9).permute(0, 3, 1, 2)
    else:
        expected = torch.tensor(distances[:18]).view(2, 1, 3, 3)
    torch.testing.assert_close(layer.maps, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["static", "dynamic", "attention"])
def test_a_row_across_maps_is_what_its_position_takes(mode: GlobalMode) -> None:
    layer = drawn(GlobalSimilarity(16, 12, mode, torch.Generator().manual_seed(1)))
    maps = torch.randn(3, 16, 3, 4, generator=torch.Generator().manual_seed(2))
    found = learned_similarities(nn.Sequential(layer), maps, 2)
    assert found is not None
    [across] = found.across
    assert across.rows.shape == (2, 3, 4)
    assert across.position == (1, 2)
    gate = 1.0 if across.gate is None else across.gate
    assert gate != 0
    taken = (layer(maps) - maps)[:2, :, 1, 2]
    expected = gate * torch.einsum("nchw,nhw->nc", maps[:2], across.rows)
    torch.testing.assert_close(taken, expected, rtol=1e-4, atol=1e-4)
    if mode == "attention":
        torch.testing.assert_close(across.rows.sum(dim=(1, 2)), torch.ones(2))


def test_the_distance_across_maps_is_that_of_what_is_added() -> None:
    """Unit vectors as channels give the columns of γ M one by one."""
    layer = drawn(GlobalSimilarity(12, 12, "static", torch.Generator()))
    maps = torch.eye(12).view(1, 12, 3, 4)
    found = learned_similarities(nn.Sequential(layer), maps, 1)
    assert found is not None
    assert found.across[0].distance == pytest.approx(float((layer(maps) - maps).norm()), rel=1e-5)


def test_the_distance_across_maps_is_a_mean_over_images_times_the_gate() -> None:
    layer = drawn(GlobalSimilarity(16, 12, "dynamic", torch.Generator()))
    assert isinstance(layer, GlobalSimilarity)
    assert layer.gate is not None
    layer.gate.fill_(-0.25)
    maps = torch.randn(3, 16, 3, 4, generator=torch.Generator().manual_seed(2))
    found = learned_similarities(nn.Sequential(layer), maps, 1)
    assert found is not None
    lengths = [float((0.25 * matrix).square().sum().sqrt()) for matrix in layer.mixing(maps)]
    assert found.across[0].distance == pytest.approx(sum(lengths) / 3, rel=1e-5)
    assert found.across[0].gate == -0.25


def test_a_network_is_left_as_it_was_and_one_without_similarities_has_nothing() -> None:
    network = nn.Sequential(convolution("diagonal", dynamic=True), nn.Conv2d(5, 2, 1))
    assert learned_similarities(network, images(2), 1) is not None
    assert not any(module._forward_hooks for module in network.modules())
    assert learned_similarities(nn.Sequential(nn.Conv2d(2, 2, 3)), images(2), 1) is None

"""Which axes of maps and tokens are averaged, and maps that do not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import parser

from mntrain.errors import ConfigError
from mntrain.networks.opening import open_network
from mntrain.networks.options import NetworkOptions
from mntrain.networks.pooling import averaged_axes, pool


@pytest.mark.parametrize(
    ("shape", "size", "width", "axes"),
    [
        ((2, 16, 8, 8), (32, 32), None, (2, 3)),
        ((2, 8, 8, 16), (32, 32), None, (1, 2)),
        ((2, 8, 8, 16), (32, 32), 8, (1, 2)),  # places come first: 8 is the width of another tensor
        ((2, 16, 3, 5), (24, 40), None, (2, 3)),
        ((2, 4, 5, 16), (25, 40), None, (1, 2)),
        ((2, 8, 8, 8), (32, 32), None, None),
        ((2, 3, 4, 5), (24, 40), 5, (1, 2)),  # both orders have the proportions of the input
        ((2, 7, 8, 16), (32, 32), 16, (1, 2)),
        ((2, 7, 8, 16), (32, 32), None, None),
        ((2, 50, 16), (32, 32), None, (1,)),
        ((2, 16, 50), (32, 32), 16, (2,)),
        ((2, 16, 16), (32, 32), 16, (1,)),
    ],
)
def test_places_are_told_by_their_proportions(
    shape: tuple[int, ...], size: tuple[int, int], width: int | None, axes: Any
) -> None:
    assert averaged_axes(shape, size, width) == axes
    features = torch.from_numpy(np.random.default_rng(0).normal(size=shape)).float()
    if axes is None:
        with pytest.raises(ConfigError, match=r"--pooling is mean, but maps of shape .* which axis has the channels"):
            pool(features, "mean", size=size, width=width)
    else:
        torch.testing.assert_close(pool(features, "mean", size=size, width=width), features.mean(axes))
    torch.testing.assert_close(pool(features, "auto", size=size), features)


def test_a_map_of_one_place_is_flattened_in_either_order() -> None:
    for shape in ((2, 16, 1, 1), (2, 1, 1, 16)):
        assert pool(torch.zeros(shape), "auto", size=(32, 32)).shape == (2, 16)


def test_the_last_tokens_are_patches() -> None:
    tokens = torch.arange(24.0).reshape(2, 4, 3)
    torch.testing.assert_close(pool(tokens, "mean", size=(8, 8), patches=3), tokens[:, 1:].mean(1))


def test_channels_of_an_onnx_file_may_come_last(tmp_path: Path, images: NDArray[np.uint8]) -> None:
    """The network takes NCHW, and its maps are NHWC, as those of networks with layer normalisation are."""
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18]>
        network (float[N, 3, 16, 16] x) => (float[N, 2] y)
        <int64[2] axes = {1, 2}, float[3, 2] w = {1, 2, 3, 4, 5, 6}>
        {
            maps = Transpose<perm = [0, 2, 3, 1]>(x)
            pooled = ReduceMean<keepdims = 0>(maps, axes)
            y = MatMul(pooled, w)
        }
    """)
    onnx.save(model, tmp_path / "network.onnx")
    network = open_network(NetworkOptions(source=str(tmp_path / "network.onnx"), output="maps", pooling="mean"))
    np.testing.assert_allclose(network.embed(images), images.mean((2, 3)) / 255, atol=1e-6)

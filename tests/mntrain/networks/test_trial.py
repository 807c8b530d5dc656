"""Networks whose answers are random, or depend on the batch, are refused before anything is computed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from onnx import parser
from torch import nn

from mntrain.data.preprocessing import PreprocessingConfig
from mntrain.errors import DataError
from mntrain.networks.frozen_network import TorchBody
from mntrain.networks.opened import InputRule, OpenedNetwork
from mntrain.networks.opening import open_network
from mntrain.networks.options import NetworkOptions

NORMALIZATION = PreprocessingConfig(mean=(0.0,) * 3, std=(1.0,) * 3)
RANDOM, BATCH = r"asked for the same images again.*ViT-MAE", r"alone than in a batch of 2.*evaluation mode"


def opened(module: nn.Module) -> OpenedNetwork:
    rule = InputRule(normalization=NORMALIZATION, size=None)
    return OpenedNetwork(kind="timm", name="small", sha256="0", input=rule, body=TorchBody(module=module))


class Means(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Channel means [B, 3]."""
        return inputs.mean((2, 3))


class NotFinite(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Vectors [B, 2] of NaN and infinity."""
        return torch.stack([inputs.sum((1, 2, 3)) * torch.nan, inputs.sum((1, 2, 3)) / 0], dim=1)


@pytest.mark.parametrize(("first", "words"), [(nn.Dropout(0.5).train(), RANDOM), (nn.BatchNorm2d(3).train(), BATCH)])
def test_answers_that_do_not_depend_on_the_image_alone(first: nn.Module, words: str) -> None:
    with pytest.raises(DataError, match=words):
        opened(nn.Sequential(first, Means())).for_images((3, 8, 8))
    assert opened(nn.Sequential(first.eval(), Means())).for_images((3, 8, 8)).record.features == 3


def test_values_that_are_not_finite_are_left_to_the_images() -> None:
    assert opened(NotFinite()).for_images((3, 8, 8)).record.features == 2


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("noise = RandomNormalLike<scale = 0.01>(pooled) features = Add(pooled, noise)", RANDOM),
        ("mean = ReduceMean<keepdims = 1>(pooled, first) features = Sub(pooled, mean)", BATCH),
        ("features = Relu(pooled)", None),
    ],
)
def test_files_of_onnx(tmp_path: Path, step: str, words: str | None) -> None:
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 18]>
        network (float[N, 3, 8, 8] x) => (float[N, 3] features) <int64[2] axes = {{2, 3}}, int64[1] first = {{0}}>
        {{ pooled = ReduceMean<keepdims = 0>(x, axes) {step} }}
    """)
    onnx.save(model, tmp_path / "network.onnx")
    options = NetworkOptions(source=str(tmp_path / "network.onnx"), output="features")
    if words is None:
        assert open_network(options).record.features == 3
        return
    with pytest.raises(DataError, match=words):
        open_network(options)


def test_a_network_that_masks_patches_at_random(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    decoder = {f"decoder_{name}": value for name, value in small.items()}
    config = transformers.ViTMAEConfig(**small, **decoder, image_size=16, patch_size=4)
    transformers.ViTMAEModel(config).save_pretrained(tmp_path)
    with pytest.raises(DataError, match=RANDOM):
        open_network(f"hf:{tmp_path}")

"""Precision of networks with predicted similarities: norms of patches are sums of squares, which stay in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from mnexport.errors import ParityError
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.heads import static_head
from mnexport.forms.mixed_precision import with_lowered_backbone
from mnexport.graph import write_onnx
from mnexport.precision.accuracy import Precision
from mnexport.precision.lowering import lower
from mnexport.precision.quantization import quantize
from mnexport.signature import image_signature
from mntrain.artifact_config import InputSpec
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.layers.heads import build_head
from mntrain.layers.similarity.config import GlobalMode, SimilarityConfig
from mntrain.layers.similarity.global_similarity import GlobalSimilarity

SIGNATURE = image_signature(InputSpec(channels=3, height=16, width=16), tuple("abcd"))
IMAGES = np.random.default_rng(0).integers(0, 256, (16, 3, 16, 16), np.uint8)


def classifier() -> DeployedClassifier:
    torch.manual_seed(0)
    settings = SimilarityConfig(mode="dynamic", hidden=5)
    backbone = build_backbone(BackboneConfig(name="cnn4", width=0.25, similarity=settings), (3, 16, 16))
    for parameter in backbone.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    head = static_head(build_head("dot", backbone.features, 4, 10.0))  # type: ignore[arg-type]
    return DeployedClassifier(Preprocessing(PreprocessingConfig.identity(3)), backbone, head)


def logits(file: Path) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["logits"], {"image": IMAGES})[0])


def test_int8_leaves_the_sums_of_squares_alone(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    write_onnx(classifier(), SIGNATURE, 20, {}, file)
    before = logits(file)
    quantize(file, SIGNATURE, IMAGES)
    graph = onnx.load(file).graph
    ones = {
        item.name
        for item in graph.initializer
        if list(item.dims) == [1, 1, 3, 3] and (onnx.numpy_helper.to_array(item) == 1).all()
    }
    quantized = {output for node in graph.node if node.op_type == "DequantizeLinear" for output in node.output}
    sums = [node for node in graph.node if node.op_type == "Conv" and node.input[1] in ones]
    others = [node for node in graph.node if node.op_type == "Conv" and node.input[1] not in ones]
    assert len(sums) == 3
    assert not any(node.input[0] in quantized for node in sums)
    assert all({node.input[0], node.input[1]} <= quantized for node in others)
    assert np.abs(logits(file) - before).max() < 0.1 * np.abs(before).max()


def test_float16_adds_squares_up_in_float32(tmp_path: Path) -> None:
    """Patches whose sums of squares are beyond float16: 9 taps of 8 channels of about 100."""
    model = classifier()
    with torch.no_grad():
        model.backbone.layers[0].weight.mul_(200.0)  # type: ignore[index, union-attr]
    lowered = with_lowered_backbone(model, torch.float16)
    images = torch.from_numpy(IMAGES)
    with torch.inference_mode():
        maps = model.backbone.layers[:4](model.preprocessing(images))  # type: ignore[index]
        assert maps.square().sum(dim=1).max() * 9 > torch.finfo(torch.float16).max
        half, full = lowered(images)[0], model(images)[0]
    assert half.isfinite().all()
    torch.testing.assert_close(half, full, atol=0.02 * float(full.abs().max()), rtol=0)


@pytest.mark.parametrize("mode", ["dynamic", "attention"])
def test_blank_images_have_answers_in_float16(tmp_path: Path, mode: GlobalMode) -> None:
    """Behind ReLU all channels of a position may be 0, and its length, too."""
    torch.manual_seed(0)
    config = BackboneConfig(name="cnn9", width=0.25, similarity=SimilarityConfig(across_map=mode))
    backbone = build_backbone(config, (3, 16, 16))
    layers = [layer for layer in backbone.modules() if isinstance(layer, GlobalSimilarity)]
    for layer in layers:
        torch.nn.init.constant_(layer.gate, 1.0)  # type: ignore[arg-type]
    for layer in backbone.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            torch.nn.init.constant_(layer.bias, -0.5)  # black images are all 0 behind it
    for _ in range(30):
        backbone.train()(torch.rand(16, 3, 16, 16))
    head = build_head("dot", backbone.features, 4, 10.0)
    torch.nn.init.normal_(head.weight)
    model = DeployedClassifier(Preprocessing(PreprocessingConfig.identity(3)), backbone, static_head(head))  # type: ignore[arg-type]
    lowered = with_lowered_backbone(model, torch.float16)
    images = np.concatenate([np.zeros_like(IMAGES[:1]), IMAGES])
    write_onnx(lowered, SIGNATURE, 20, {}, tmp_path / "m.onnx")
    with torch.inference_mode():
        full = model(torch.from_numpy(images))[0]
        assert float(full.abs().max()) > 0
        half = lowered(torch.from_numpy(images))[0]
    torch.testing.assert_close(half, full, atol=0.02 * float(full.abs().max()), rtol=0)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    answers = session.run(["logits"], {"image": images})[0]
    np.testing.assert_allclose(answers, full.numpy(), atol=0.02 * float(full.abs().max()), rtol=0)


class DividedByLengths(nn.Module):
    """Maps over the lengths of their positions, guarded by what is 0 in float16."""

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 3, H, W] → features [B, 3]."""
        return normalize(relu(images - 0.1), dim=1).mean(dim=(2, 3))


def test_a_network_that_has_no_answer_to_blank_images_is_refused(tmp_path: Path) -> None:
    head = static_head(build_head("dot", 3, 4, 10.0))  # type: ignore[arg-type]
    model = DeployedClassifier(Preprocessing(PreprocessingConfig.identity(3)), DividedByLengths(), head)
    images = IMAGES.copy()
    images[:, 0] |= 64  # no position of these is 0
    images[0, :, 0, 0] = [0, 64, 0]
    with pytest.raises(ParityError, match="1 of 19 images, three of them blank, get no finite answer"):
        lower(model, tmp_path / "m.onnx", SIGNATURE, Precision(dtype="float16"), 20, {}, images)

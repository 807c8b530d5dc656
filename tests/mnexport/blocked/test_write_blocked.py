"""Backbones with iFiLM in ONNX Runtime's blocked layout answer as the ordinary graph does.

Shapes: image uint8 [B, 3, 16, 16], logits [B, 5].
"""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

from mnexport.blocked import assemble
from mnexport.blocked.assemble import write_blocked
from mnexport.blocked.layout import block_size
from mnexport.forms.layers import static_layers
from mnexport.graph import write_onnx
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.layers.ifilm import IFiLM

CLASSES, IMAGE = 5, (3, 16, 16)
SIGNATURE = ExportSignature(
    inputs=(ExportTensor(name="image", datatype="UINT8", shape=IMAGE),),
    input_type="uint8",
    outputs=tuple(ExportTensor(name=name, datatype="FP32", shape=(CLASSES,)) for name in ("logits", "probabilities")),
    labels=tuple("abcde"),
    description={},
)
pytestmark = pytest.mark.skipif(block_size() is None, reason="ONNX Runtime has no blocked layout on this processor")


class Classifier(nn.Module):
    """A backbone and a linear layer."""

    weight: Tensor

    def __init__(self, backbone: nn.Module, features: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("weight", torch.randn(features, CLASSES) / features**0.5)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.backbone(image.float() / 255) @ self.weight
        return logits, logits.softmax(-1)


def randomise(module: nn.Module, *, dead_channel: bool = False) -> None:
    """Set statistics and iFiLM to random values, as after a training."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_()
            if dead_channel:
                layer.weight.data[0] = 0
        if isinstance(layer, IFiLM):
            layer.scales.data.normal_(0, 0.5)
            layer.shifts.data.normal_(0, 0.5)


def trained(name: str, *, width: float = 1.0, ifilm: bool = True, dead_channel: bool = False) -> Classifier:
    torch.manual_seed(0)
    backbone = build_backbone(BackboneConfig(name=name, width=width, ifilm=ifilm, ifilm_entries=4), IMAGE)
    randomise(backbone, dead_channel=dead_channel)
    return Classifier(backbone, int(backbone.features)).eval().requires_grad_(False)  # type: ignore[call-overload]


def exported(model: nn.Module, path: Path) -> Path:
    static = copy.deepcopy(model)
    static_layers(static)
    write_onnx(static, SIGNATURE, 20, {"mn.name": "m"}, path)
    return path


def session(path: Path, threads: int = 1) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, *IMAGE), np.uint8)


def assert_same(blocked: Path, model: nn.Module, counts: tuple[int, ...], threads: int = 1) -> None:
    running = session(blocked, threads)
    for count in counts:
        logits = running.run(["logits"], {"image": images(count)})[0]
        expected = model(torch.from_numpy(images(count)))[0].numpy()
        np.testing.assert_allclose(logits, expected, atol=2e-5 * max(1, np.abs(expected).max()), rtol=0)


def every_graph(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield every graph of a model, those inside others too."""
    left = [model.graph]
    while left:
        graph = left.pop()
        yield graph
        left += [item.g for node in graph.node for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    """Model and file of a ResNet-29."""
    folder = tmp_path_factory.mktemp("resnet")
    model = trained("resnet29", width=0.5)
    report = write_blocked(exported(model, folder / "m.onnx"), folder / "cpu.onnx")
    assert report is not None
    assert report.maps == 31
    return model, folder / "cpu.onnx"


def test_any_number_of_images_gets_the_same_answers(resnet: tuple[nn.Module, Path]) -> None:
    model, file = resnet
    assert_same(file, model, (1, 2, 7, 8, 9, 16, 19))
    assert_same(file, model, (1, 11), threads=3)


def test_this_processor_does_not_compute_the_ordinary_graph(resnet: tuple[nn.Module, Path], tmp_path: Path) -> None:
    model, file = resnet
    broken = onnx.load(str(file))
    zeroed = 0
    for graph in every_graph(broken):
        if graph.name == "ordinary":
            for item in graph.initializer:
                if item.data_type == onnx.TensorProto.FLOAT:
                    item.raw_data = bytes(len(item.raw_data))
                    zeroed += 1
    assert zeroed
    onnx.save(broken, str(tmp_path / "broken.onnx"))
    assert_same(tmp_path / "broken.onnx", model, (1, 8, 9))


def test_maps_never_leave_the_layout(resnet: tuple[nn.Module, Path]) -> None:
    inside = [
        graph for graph in every_graph(onnx.load(str(resnet[1]))) if graph.name in ("alone", "1 images", "8 images")
    ]
    assert len(inside) == 3
    for graph in inside:
        kinds = [node.op_type for node in graph.node]
        assert "ReorderInput" not in kinds
        assert "ReorderOutput" not in kinds
        assert "Relu" not in kinds, "it is a part of the affine map"
        affine = [node for node in graph.node if node.op_type == "Conv" and node.input[1].endswith(":filters")]
        assert len(affine) == 30, "the last maps are only pooled, so their mean is mapped"
        sums = [node for node in graph.node if node.op_type == "Conv" and len(node.input) == 4]
        assert len(sums) == 9, "each residual sum is a part of a convolution"
    metadata = {item.key: item.value for item in onnx.load(str(resnet[1])).metadata_props}
    assert metadata == {"mn.name": "m"}


def test_answers_do_not_depend_on_the_other_images(resnet: tuple[nn.Module, Path]) -> None:
    running = session(resnet[1])
    together = running.run(["logits"], {"image": images(11)})[0]
    for index in (0, 5, 8, 10):
        alone = running.run(["logits"], {"image": images(11)[index : index + 1]})[0]
        np.testing.assert_allclose(together[index : index + 1], alone, atol=2e-5 * np.abs(alone).max(), rtol=0)


@pytest.fixture(scope="module")
def convnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Classifier, Path]:
    """Model and ordinary file of a ConvNet-4."""
    model = trained("convnet4")
    return model, exported(model, tmp_path_factory.mktemp("convnet") / "m.onnx")


@pytest.mark.parametrize("width", [1.0, 0.25])
def test_widths_that_fill_no_block_give_the_same_answers(
    width: float, tmp_path: Path, convnet: tuple[Classifier, Path]
) -> None:
    """ConvNet-4 has 24 or 6 channels in its first layer."""
    model, file = convnet
    if width != 1:
        model = trained("convnet4", width=width)
        file = exported(model, tmp_path / "m.onnx")
    report = write_blocked(file, tmp_path / "cpu.onnx")
    assert report is not None
    assert report.maps == 4
    assert_same(tmp_path / "cpu.onnx", model, (1, 9))


def test_a_channel_that_is_scaled_to_nothing_gives_the_same_answers(tmp_path: Path) -> None:
    """The normalisation of the channel cannot move into the convolution, since iFiLM divides by its scale."""
    model = trained("convnet4", dead_channel=True)
    write_blocked(exported(model, tmp_path / "m.onnx"), tmp_path / "cpu.onnx")
    assert_same(tmp_path / "cpu.onnx", model, (1, 9))


def test_another_processor_computes_the_ordinary_graph(
    convnet: tuple[Classifier, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters are packed for blocks that are not those of this processor: in its kernels they would be nonsense."""
    real = block_size()
    monkeypatch.setattr(assemble, "block_size", lambda: 8 if real == 16 else 16)
    model, file = convnet
    report = write_blocked(file, tmp_path / "cpu.onnx")
    assert report is not None
    assert report.block != real
    assert_same(tmp_path / "cpu.onnx", model, (1, 8, 9))


def test_without_ifilm_nothing_is_written(tmp_path: Path) -> None:
    file = exported(trained("convnet4", ifilm=False), tmp_path / "m.onnx")
    assert write_blocked(file, tmp_path / "cpu.onnx") is None
    assert not (tmp_path / "cpu.onnx").exists()


class Dense(nn.Module):
    """Layers that take all maps before them; none of these fills a block."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(width), IFiLM(width, 4)) for width in (12, 17, 22))
        self.layers = nn.ModuleList(nn.Conv2d(width, 5, 3, padding=1, bias=False) for width in (12, 17))

    def forward(self, image: Tensor) -> Tensor:
        maps = self.first(image)
        for norm, layer in zip(self.norms, self.layers, strict=False):
            maps = torch.cat([maps, layer(torch.relu(norm(maps)))], dim=1)
        pooled: Tensor = self.norms[2](maps).mean(dim=(2, 3))
        return pooled


def test_maps_side_by_side_give_the_same_answers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone = Dense()
    randomise(backbone)
    model = Classifier(backbone, 22).eval().requires_grad_(False)
    file = exported(model, tmp_path / "m.onnx")
    report = write_blocked(file, file)
    assert report is not None
    assert report.maps == 3
    assert_same(file, model, (1, 8, 10))


class Unusual(nn.Module):
    """Operators that the layout has, and others: grouped convolution, shuffled channels, tanh."""

    def __init__(self, *, leaving: bool) -> None:
        super().__init__()
        self.leaving = leaving
        self.first = nn.Conv2d(3, 32, 3, stride=2)
        self.norm = nn.Sequential(nn.BatchNorm2d(32), IFiLM(32, 4))
        self.second = nn.Conv2d(32, 32, 3, padding=1, bias=True)
        self.norm2 = nn.Sequential(nn.BatchNorm2d(32), IFiLM(32, 4))
        self.grouped = nn.Conv2d(32, 32, 3, padding=1, groups=4)
        self.pool = nn.AvgPool2d(2)

    def forward(self, image: Tensor) -> Tensor:
        maps = self.norm(self.first(image))
        maps = torch.relu(maps) + self.norm2(self.second(maps))
        if self.leaving:
            maps = torch.tanh(self.grouped(maps)).flip(1)
        pooled: Tensor = self.pool(maps).amax(dim=(2, 3))
        return pooled


@pytest.mark.parametrize("leaving", [False, True])
def test_operators_outside_the_layout_give_the_same_answers(
    leaving: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    backbone = Unusual(leaving=leaving)
    randomise(backbone)
    model = Classifier(backbone, 32).eval().requires_grad_(False)
    file = exported(model, tmp_path / "m.onnx")
    assert write_blocked(file, tmp_path / "no.onnx") is None, "two maps, of which one leaves the layout"
    monkeypatch.setattr(assemble, "_MAX_REORDERED", 9.0)
    assert write_blocked(file, file) is not None
    assert_same(file, model, (1, 8, 10))


def layer(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Sequential(nn.BatchNorm2d(channels), IFiLM(channels, 4)), nn.ReLU())


class Chain(nn.Module):
    """Five ordinary layers, and those that a subclass puts behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(3 if i == 0 else 32, 32, 3, padding=1, bias=False) for i in range(5)
        )
        self.layers = nn.ModuleList(layer(32) for _ in range(7))

    def behind(self, maps: Tensor, image: Tensor) -> Tensor:
        return maps

    def forward(self, image: Tensor) -> Tensor:
        maps = (image - 0.5) * 2
        for convolution, norm in zip(self.convolutions, self.layers[:5], strict=True):
            maps = norm(convolution(maps))
        pooled: Tensor = self.behind(maps, image).mean(dim=(2, 3))
        return pooled


class Grouped(Chain):
    """Grouped convolution: the layout does not take it, so that it cannot take normalisation either."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(32, 32, 3, padding=1, bias=False, groups=32)

    def behind(self, maps: Tensor, image: Tensor) -> Tensor:
        result: Tensor = self.layers[5](self.grouped(maps))
        return result


class Shared(Chain):
    """One filter, normalised in two ways."""

    def behind(self, maps: Tensor, image: Tensor) -> Tensor:
        for norm in self.layers[5:]:
            maps = norm(self.convolutions[4](maps))
        return maps


class Twice(Chain):
    """Convolution that is added to itself."""

    def behind(self, maps: Tensor, image: Tensor) -> Tensor:
        doubled = self.convolutions[4](maps)
        result: Tensor = self.layers[5](doubled + doubled)
        return result


class Overhanging(Chain):
    """Windows that reach over the edge."""

    def behind(self, maps: Tensor, image: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(maps, 3, stride=2, ceil_mode=True)


@pytest.mark.parametrize("kind", [Grouped, Shared, Twice, Overhanging])
def test_unusual_ends_give_the_same_answers(kind: type[Chain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "_MAX_REORDERED", 9.0)
    torch.manual_seed(0)
    backbone = kind()
    randomise(backbone)
    model = Classifier(backbone, 32).eval().requires_grad_(False)
    file = exported(model, tmp_path / "m.onnx")
    assert write_blocked(file, file) is not None
    assert_same(file, model, (1, 9))


class WithAnotherWay(Chain):
    """Number for every image that does not come out of the convolutions."""

    def behind(self, maps: Tensor, image: Tensor) -> Tensor:
        return maps * image.mean(dim=(1, 2, 3), keepdim=True)


def test_a_backbone_that_takes_a_value_of_all_images_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone = WithAnotherWay()
    randomise(backbone)
    model = Classifier(backbone, 32).eval().requires_grad_(False)
    file = exported(model, tmp_path / "m.onnx")
    assert write_blocked(file, file) is None


def test_a_large_file_is_left_as_it_is(
    convnet: tuple[Classifier, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "_MAX_SOURCE_BYTES", 1000)
    assert write_blocked(convnet[1], tmp_path / "cpu.onnx") is None

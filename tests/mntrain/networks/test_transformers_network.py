"""Vision networks of `transformers` and `timm`: features, classifiers, pixels, and names that are none."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hub_server import HubServer
from numpy.typing import NDArray

from mntrain.errors import ConfigError, DataError
from mntrain.networks.image_processor import read_processor
from mntrain.networks.opening import open_named, open_network, reopen_network
from mntrain.networks.options import NetworkOptions

transformers = pytest.importorskip("transformers")
Folder = Callable[[str], Path]
Images = NDArray[np.uint8]


def normalized(images: Images) -> torch.Tensor:
    """What the folders' preprocessor_config.json says."""
    mean, std = (np.array(values)[None, :, None, None] for values in ([0.5, 0.4, 0.3], [0.2, 0.25, 0.5]))
    return torch.from_numpy((images / 255 - mean) / std).float()


@pytest.mark.parametrize(("kind", "features"), [("resnet", 12), ("dinov2-classifier", 32)])
def test_a_classifier_is_its_features_and_its_last_layer(
    hf_folder: Folder, images: Images, kind: str, features: int
) -> None:
    folder = hf_folder(kind)
    network = open_network(f"hf:{folder}")
    assert (network.record.features, network.record.kind) == (features, "transformers")
    original = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = original(pixel_values=normalized(images)).logits
    assert network.classifier is not None
    np.testing.assert_allclose(network.classifier.logits(network.embed(images)), expected, atol=1e-5)
    if kind == "resnet":
        assert network.label_names == ("cat", "dog", "owl")
    np.testing.assert_array_equal(reopen_network(network.record).embed(images), network.embed(images))


@pytest.mark.parametrize("pooling", ["auto", "cls", "mean"])
def test_tokens_are_pooled_as_asked(hf_folder: Folder, images: Images, pooling: Any) -> None:
    folder = hf_folder("dinov2")
    network = open_network(NetworkOptions(source=f"hf:{folder}", pooling=pooling))
    original = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        answer = original(pixel_values=normalized(images))
    tokens = answer.last_hidden_state
    expected = {"auto": answer.pooler_output, "cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1)}[pooling]
    np.testing.assert_allclose(network.embed(images), expected, atol=1e-5)
    assert network.classifier is None


def test_the_image_tower_of_clip(hf_folder: Folder, images: Images) -> None:
    network = open_network(f"hf:{hf_folder('clip')}")
    original = transformers.CLIPVisionModel.from_pretrained(hf_folder("clip")).eval()
    with torch.no_grad():
        expected = original(pixel_values=normalized(images)).pooler_output
    np.testing.assert_allclose(network.embed(images), expected, atol=1e-5)


def test_a_pooled_output_without_weights_is_not_used(
    hf_folder: Folder, images: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    network = open_network(f"hf:{hf_folder('vit')}")
    assert "features are the first token" in capsys.readouterr().err
    original = transformers.AutoModel.from_pretrained(hf_folder("vit"), add_pooling_layer=False).eval()
    with torch.no_grad():
        expected = original(pixel_values=normalized(images)).last_hidden_state[:, 0]
    np.testing.assert_allclose(network.embed(images), expected, atol=1e-5)
    with pytest.raises(ConfigError, match="has no trained weights"):
        open_network(NetworkOptions(source=f"hf:{hf_folder('vit')}", pooling="pooled"))


def test_a_configuration_alone_gets_weights_from_a_fixed_seed(
    hf_folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(hf_folder("dinov2") / "config.json", tmp_path)
    before = torch.random.get_rng_state()
    one, other = (open_named(NetworkOptions(source=f"hf:{tmp_path}")) for _ in range(2))
    assert one.sha256 == other.sha256
    assert torch.equal(before, torch.random.get_rng_state())
    told = capsys.readouterr().err
    assert "drawn from seed 0" in told
    assert "has no preprocessor_config.json" in told


@pytest.mark.parametrize(
    ("values", "size", "fit", "mean", "std"),
    [
        ({"size": {"height": 30, "width": 20}, "image_mean": [0.5], "image_std": [0.5]}, (30, 20), "stretch", 0.5, 0.5),
        ({"size": {"shortest_edge": 256}, "crop_size": 224, "do_center_crop": True}, (224, 224), "crop", 0.0, 1.0),
        ({"size": 224, "do_center_crop": False, "crop_size": 200}, (224, 224), "stretch", 0.0, 1.0),
        ({"rescale_factor": 1 / 127.5, "rescale_offset": True}, (224, 224), "stretch", 0.5, 0.5),
        ({"do_rescale": False, "image_mean": [102.0], "image_std": [51.0]}, (224, 224), "stretch", 0.4, 0.2),
    ],
)
def test_settings_of_image_processors(
    values: dict[str, Any], size: tuple[int, int], fit: str, mean: float, std: float
) -> None:
    rule = read_processor({"image_mean": [0, 0, 0], "image_std": [1, 1, 1]} | values, "file")
    assert (rule.size, rule.fit) == (size, fit)
    assert rule.normalization.mean[0] == pytest.approx(mean)
    assert rule.normalization.std[0] == pytest.approx(std)


def test_damaged_settings_are_a_sentence(hf_folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not say how images become"):
        read_processor({"size": {"depth": 3}}, "file")
    folder = tmp_path / "copy"
    shutil.copytree(hf_folder("dinov2"), folder)
    (folder / "preprocessor_config.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        open_network(f"hf:{folder}")
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": 16}))
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(DataError, match="cannot be opened"):
        open_network(f"hf:{folder}")


def test_names_that_are_none(hf_folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = hf_folder("dinov2")
    with pytest.raises(ConfigError, match=r"Did you mean '.*dinov2'"):
        open_network(f"hf:{folder.with_name('dinov3')}")
    with pytest.raises(ConfigError, match=r"without config\.json"):
        open_network(f"hf:{tmp_path}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("mntrain.networks.hub.cached_names", lambda: ["facebook/dinov2-small"])
    with pytest.raises(DataError, match=r"hub cannot be reached.*'facebook/dinov2-small' is nearest"):
        open_network("hf:facebook/dinov2-smal")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        yield server


def test_a_wrong_name_on_the_hub_names_the_nearest(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mntrain.networks.hub._search", lambda name: ["facebook/dinov2-small", "google/vit"])
    with pytest.raises(ConfigError, match=r"no public network.*Did you mean 'facebook/dinov2-small'"):
        open_network("hf:facebook/dinov2-smal")
    assert [path for _, path, _ in hub.requests] == ["/api/models/facebook/dinov2-smal"]


def test_a_hub_that_does_not_answer_is_asked_once(hub: HubServer) -> None:
    hub.answers = False
    with pytest.raises(DataError, match="hub cannot be reached"):
        open_network("hf:facebook/dinov2-small")
    assert [path for _, path, _ in hub.requests] == ["/api/models/facebook/dinov2-small"]


def test_options_of_onnx_files_are_refused(hf_folder: Folder) -> None:
    with pytest.raises(ConfigError, match="--scale is given"):
        open_network(NetworkOptions(source=f"hf:{hf_folder('dinov2')}", scale=255))


def test_timm_without_torchvision_is_a_sentence() -> None:
    if importlib.util.find_spec("timm") is None or importlib.util.find_spec("torchvision") is not None:
        pytest.skip("timm without torchvision is not what is installed here")
    with pytest.raises(ConfigError, match="torchvision, which is not installed"):
        open_network("timm:resnet18")


def test_timm_with_torchvision() -> None:
    if importlib.util.find_spec("timm") is None or importlib.util.find_spec("torchvision") is None:
        pytest.skip("timm needs a torchvision that matches this PyTorch")
    with pytest.raises(ConfigError, match="Did you mean 'resnet18'"):
        open_network("timm:resnet81")

"""Networks that cannot be joined with a head: a sentence each, and nothing is published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from common.head_artifacts import Samples, write_linear_head

from mnexport.commands.cli import main
from mnexport.errors import GraphError, ParityError, UsageError
from mnexport.graft.features import check_features
from mnexport.graft.reading import read_graft
from mnexport.graft.sessions import ExposedModel
from mnexport.graph import GraphOptions
from mnexport.progress import no_progress
from mntrain.artifact import load_artifact
from mntrain.errors import ArtifactError, DataError
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.networks.opening import open_named
from mntrain.networks.options import NetworkOptions


def read(artifact: Path, backbone: Path | None = None) -> object:
    return read_graft(load_artifact(artifact), backbone, GraphOptions(), 0)


@pytest.fixture
def moved(small_onnx: Path, tmp_path: Path, head_on: Callable[..., Path]) -> Callable[[], tuple[Path, Path]]:
    """A head on a network that has left its place; gives both."""

    def move() -> tuple[Path, Path]:
        before = tmp_path / "before.onnx"
        shutil.copy(small_onnx, before)
        head = head_on(open_named(NetworkOptions(source=str(before)), lambda _: None).for_images((3, 16, 16)))
        return head, before.rename(tmp_path / "after.onnx")

    return move


def test_a_network_that_has_moved_is_found_again(moved: Callable[[], tuple[Path, Path]]) -> None:
    head, after = moved()
    with pytest.raises(ArtifactError, match=r"before\.onnx.*Say with --backbone where the network of this head lies"):
        read(head)
    assert read(head, after) is not None


def test_another_network_at_that_place_is_refused(
    moved: Callable[[], tuple[Path, Path]], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, after = moved()
    model = onnx.load(after)
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    onnx.save(model, after)
    with pytest.raises(DataError, match="is not the network that the features were computed with"):
        read(head, after)
    assert main([str(head), str(repository / "m"), "--backbone", str(after)]) == 1
    assert "digest" in capsys.readouterr().err
    assert list(repository.iterdir()) == []


def test_a_place_of_a_network_is_for_heads(runs: Path) -> None:
    with pytest.raises(UsageError, match=r"--backbone x\.onnx says where the network of a head lies"):
        read(runs / "vanilla" / "artifact", Path("x.onnx"))


def test_a_head_without_its_images(linear_head: Path, tmp_path: Path) -> None:
    shutil.copytree(linear_head, tmp_path / "head")
    (tmp_path / "head" / "network_images.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"has no network_images\.safetensors"):
        read(tmp_path / "head")


def test_a_head_of_another_width(small_network: FrozenNetwork, small_samples: Samples, tmp_path: Path) -> None:
    narrow = replace(small_samples, features=small_samples.features[:, :7].copy())
    write_linear_head(tmp_path / "head", small_network, narrow)
    with pytest.raises(ArtifactError, match=r"takes 7 features, and .* gives 16"):
        read(tmp_path / "head")


def test_a_network_that_gives_other_features_with_equal_weights(linear_head: Path, tmp_path: Path) -> None:
    head = tmp_path / "head"
    shutil.copytree(linear_head, head)
    assert read(head) is not None
    config = json.loads((head / "config.json").read_text())
    config["network"]["pixels"]["mean"] = [0.0, 0.0, 0.0]
    (head / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match=r"gives other features of the images in .*write the features again"):
        read(head)


def test_features_that_differ_in_one_bit_are_a_failure_of_parity(
    linear_head: Path, small_onnx: Path, tmp_path: Path
) -> None:
    graft = read_graft(load_artifact(linear_head), None, GraphOptions(), 0)
    assert graft is not None
    file = tmp_path / "model.onnx"
    onnx.save(graft.front.joined(), file)
    equal = check_features(graft, [file], 8, no_progress)
    assert equal is not None
    assert equal.batches == (1, 2, 8)
    model = onnx.load(file)
    (bias,) = (item for item in model.graph.initializer if item.name.endswith("convolutions.3.bias"))
    values = bytearray(bias.raw_data)
    values[1] ^= 1
    bias.raw_data = bytes(values)
    onnx.save(model, file)
    with pytest.raises(
        ParityError, match=r"features inside model\.onnx than by itself, at batch 1: .* differ.*in float32"
    ):
        check_features(graft, [file], 8, no_progress)


def test_a_batch_fixed_inside_is_told(linear_head: Path, small_onnx: Path, tmp_path: Path) -> None:
    """The graph declares a batch of any size, and reshapes to one image."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18]>
        fixed (float[N, 4] x) => (float[1, 4] y) <int64[2] shape = {1, 4}> { y = Reshape(x, shape) }
    """)

    with pytest.raises(GraphError, match=r"does not run x\.onnx on a batch of 2"):
        ExposedModel(model, ["y"], Path("x.onnx")).run({"x": np.zeros((2, 4), np.float32)})

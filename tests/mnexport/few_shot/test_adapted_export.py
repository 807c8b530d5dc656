"""Export of adapted artifacts: as any other, with the operators of a plain network where M is folded."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.commands.cli import main as mntrain

pytestmark = pytest.mark.usefixtures("kept_exports")
NAMES = ("nil", "one", "two")


@pytest.fixture(scope="module")
def support(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pictures of each of three digits, under other names."""
    artifact = load_artifact(runs / "vanilla" / "artifact")
    assert isinstance(artifact, ImageArtifact)
    folder = tmp_path_factory.mktemp("support")
    for label, name in enumerate(NAMES):
        (folder / name).mkdir()
        for position in np.flatnonzero(artifact.samples.labels == label)[:4]:
            Image.fromarray(artifact.samples.images[position, 0]).save(folder / name / f"{position}.png")
    return folder


@pytest.fixture(scope="module")
def adapted(runs: Path, support: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ImageArtifact]:
    """Adapts a run: ``adapted("vanilla", "finetune")``."""

    def adapt(run: str, method: str, *words: str) -> ImageArtifact:
        folder = tmp_path_factory.mktemp("adapted") / "artifact"
        start = str(runs / run / "artifact")
        given = ["--data.path", str(support), "--method", method]
        assert mntrain(["adapt", start, str(folder), *given, *words, "--json"]) == 0
        artifact = load_artifact(folder)
        assert isinstance(artifact, ImageArtifact)
        return artifact

    return adapt


def published(artifact: ImageArtifact, repository: Path, **options: Any) -> Path:
    report = export(ExportOptions(artifact=artifact.path, target=Target(repository=repository, name="m"), **options))
    assert report.parity.source.startswith("12 ")
    return repository / "m" / "1" / "model.onnx"


def operators(file: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(file).graph.node)


@pytest.mark.parametrize(
    ("run", "method", "words"),
    [
        ("vanilla", "protonet", []),
        ("meta_neighborhoods", "finetune", ["--finetune.epochs", "2", "--finetune.classifier", "cosine"]),
        ("maxl", "finetune", ["--finetune.epochs", "2"]),
    ],
)
def test_a_backbone_of_any_family_is_exported_with_the_new_head(
    adapted: Callable[..., ImageArtifact], tmp_path: Path, run: str, method: str, words: list[str]
) -> None:
    artifact = adapted(run, method, *words)
    session = onnxruntime.InferenceSession(str(published(artifact, tmp_path)))
    (found,) = session.run(["logits"], {"image": artifact.samples.images})
    with torch.inference_mode():
        expected = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.images))).logits.numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    assert (tmp_path / "m" / "labels.txt").read_text().split() == list(NAMES)


def test_a_static_similarity_leaves_the_operators_of_a_plain_network(
    adapted: Callable[..., ImageArtifact], tmp_path: Path
) -> None:
    quick = ["--finetune.epochs", "2"]
    plain = adapted("vanilla", "finetune", *quick)
    static = adapted("vanilla", "static-nsn", *quick, "--finetune.similarity_rate", "0.05")
    moved = [value for name, value in static.model.state_dict().items() if name.endswith(".similarity")]
    assert moved
    assert all((value - 1).abs().max() > 0 for value in moved)
    assert operators(published(static, tmp_path / "static")) == operators(published(plain, tmp_path / "plain"))


def test_an_adapted_artifact_has_a_plain_twin_and_a_few_shot_graph(
    adapted: Callable[..., ImageArtifact], tmp_path: Path
) -> None:
    static = adapted("vanilla", "static-nsn", "--finetune.epochs", "2")
    published(static, tmp_path / "twin", vanilla=True)
    file = published(static, tmp_path / "tasks", few_shot=True)
    assert [item.name for item in onnx.load(file).graph.input] == ["support_images", "support_labels", "image"]
    record = json.loads((file.parent / "export.json").read_text())
    assert record["similarity"]["operations_over_plain"] == 1.0
    assert record["similarity"]["folded"] > 0

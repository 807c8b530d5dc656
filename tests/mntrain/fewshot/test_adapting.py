"""``mntrain adapt``: the saved artifact answers as the method does, and is an artifact as any other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.commands.cli import main
from mntrain.data.images import ImageData
from mntrain.fewshot.episodes import Episodes, EpisodeShape
from mntrain.fewshot.episodic import train_on_episodes
from mntrain.fewshot.method import EpisodicMethod, SupportSet
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.novel_images import load_novel_images
from mntrain.fewshot.registry import METHODS, MethodContext
from mntrain.fewshot.settings import parse_settings
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.training.artifact_data import load_data

QUICK = ["--finetune.epochs", "3", "--finetune.learning_rate", "0.1"]
Adapt = Callable[..., ImageArtifact]


@pytest.fixture
def adapt(novel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Adapt:
    """Adapts an artifact to the new classes, and loads the result."""

    capsys.readouterr()  # what training printed

    def run(path: Path, method: str, *words: str, data: Path = novel) -> ImageArtifact:
        folder = tmp_path / f"{method}-{len(list(tmp_path.iterdir()))}"
        where = ["--data.path", str(data), "--method", method]
        assert main(["adapt", str(path), str(folder), *where, *words, "--json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert json.loads(out)["artifact"] == str(folder)
        artifact = load_artifact(folder)
        assert isinstance(artifact, ImageArtifact)
        return artifact

    return run


def logits(artifact: ImageArtifact, images: Tensor) -> Tensor:
    with torch.inference_mode():
        found: Tensor = artifact.model(artifact.preprocessing(images)).logits
    return found


def expected_logits(artifact: ImageArtifact, novel: Path, name: str, words: list[str], images: Tensor) -> Tensor:
    """Answers of the method itself to all images of the new classes as support set."""
    found = load_novel_images(artifact, {"path": str(novel)})
    context = MethodContext(
        artifact=artifact, network=FeatureNetwork.of(artifact), ways=6, settings=parse_settings(words)
    )
    method = METHODS[name].build(context)
    pixels = torch.from_numpy(found.images.images)
    support = SupportSet(method.prepare(pixels), torch.from_numpy(found.images.labels), 6)
    return method.classify(support, method.prepare(images)).detach()


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("protonet", []),
        ("finetune", QUICK),
        ("finetune", [*QUICK, "--finetune.classifier", "cosine"]),
        ("static-nsn", [*QUICK, "--finetune.similarity_rate", "0.05"]),
    ],
    ids=["protonet", "finetune-dot", "finetune-cosine", "static-nsn"],
)
def test_the_artifact_answers_as_the_method(
    plain_path: Path, plain: ImageArtifact, novel: Path, adapt: Adapt, method: str, words: list[str]
) -> None:
    images = torch.from_numpy(plain.samples.images)
    found = logits(adapt(plain_path, method, *words), images)
    expected = expected_logits(plain, novel, method, words, images)
    if method == "protonet":  # a distance has a term that is the same for all classes
        found, expected = (values - values.mean(dim=1, keepdim=True) for values in (found, expected))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["maml", "meta-static-nsn"])
def test_a_trained_start_is_adapted_by_its_own_steps(
    base: Path, four: Path, plain_path: Path, plain: ImageArtifact, adapt: Adapt, method: str
) -> None:
    words = ["--episodic.episodes", "2", "--episodic.learning_rate", "0.01"]
    found = adapt(plain_path, method, *words, "--queries", "3", data=four)
    novel = load_novel_images(plain, {"path": str(four)})
    settings = parse_settings(words)
    context = MethodContext(artifact=plain, network=FeatureNetwork.of(plain), ways=4, settings=settings)
    learner = METHODS[method].build(context)
    assert isinstance(learner, EpisodicMethod)
    data = load_data(plain.config)
    assert isinstance(data, ImageData)
    episodes = Episodes(data.train.labels, data.label_names, EpisodeShape(ways=4, shots=2, queries=3), 0)
    train_on_episodes(learner, torch.from_numpy(data.train.images), episodes, settings.episodic)
    images = torch.from_numpy(plain.samples.images)
    support = SupportSet(torch.from_numpy(novel.images.images), torch.from_numpy(novel.images.labels), 4)
    torch.testing.assert_close(logits(found, images), learner.classify(support, images), atol=1e-5, rtol=1e-5)


def test_dynamic_similarity_stays_dynamic(
    dynamic_path: Path, dynamic: ImageArtifact, novel: Path, adapt: Adapt
) -> None:
    found = adapt(dynamic_path, "dynamic-nsn", *QUICK)
    images = torch.from_numpy(dynamic.samples.images)
    torch.testing.assert_close(
        logits(found, images), expected_logits(dynamic, novel, "dynamic-nsn", QUICK, images), atol=1e-5, rtol=1e-5
    )
    assert found.config.experiment.backbone == dynamic.config.experiment.backbone


def test_the_artifact_says_where_it_comes_from(
    plain_path: Path, plain: ImageArtifact, novel: Path, adapt: Adapt
) -> None:
    found = adapt(plain_path, "static-nsn", *QUICK).config
    assert found.labels == tuple("uvwxyz")
    assert (found.input, found.preprocessing) == (plain.config.input, plain.config.preprocessing)
    assert (found.family, found.experiment.name) == ("vanilla", "plain-static-nsn")
    assert found.experiment.model == VanillaConfig(head="dot")
    assert found.experiment.backbone.similarity.mode == "static"
    assert found.adapted is not None
    assert found.adapted["method"] == "static-nsn"
    assert found.adapted["settings"]["finetune"]["epochs"] == 3
    start = found.adapted["start"]
    assert (start["path"], start["family"], start["classes"]) == (str(plain_path), "vanilla", ["a", "b", "c", "d"])
    assert start["weights_sha256"] == plain.weights_sha256 == load_artifact(plain_path).weights_sha256
    assert found.adapted["support"] == {"path": str(novel), "images": 54, "shots": None, "seed": 0}
    assert found.metrics["support"]["examples"] == 54


def test_shots_are_drawn_by_the_seed(plain_path: Path, adapt: Adapt) -> None:
    first, again, other = (adapt(plain_path, "protonet", "--shots", "2", "--seed", seed) for seed in "001")
    assert len(first.samples) == 12
    assert np.bincount(first.samples.labels).tolist() == [2] * 6
    assert first.config.split == again.config.split
    assert first.config.split["sha256"] != other.config.split["sha256"]
    assert first.config.adapted is not None
    assert first.config.adapted["support"]["shots"] == 2


def test_a_network_with_an_extra_layer_keeps_it(extra: ImageArtifact, novel: Path, adapt: Adapt) -> None:
    images = torch.from_numpy(extra.samples.images)
    found = logits(adapt(extra.path, "finetune", *QUICK), images)
    torch.testing.assert_close(found, expected_logits(extra, novel, "finetune", QUICK, images), atol=1e-5, rtol=1e-5)


def test_evaluating_needs_other_images_and_tells_those_of_the_support_set(
    plain_path: Path, novel: Path, adapt: Adapt, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = adapt(plain_path, "protonet", "--shots", "4")
    path = str(artifact.path)
    assert main(["evaluate", path, "--data.path", str(novel)]) == 0
    out = capsys.readouterr().out
    assert "warning: 24 of 54 images are equal to some of the 24 support images in the artifact" in out
    assert main(["evaluate", path]) == 1
    err = capsys.readouterr().err
    assert "was adapted to 24 support images and has no training, validation or test split" in err
    assert len(err.splitlines()) == 1


def test_an_adapted_artifact_is_adapted_again(plain_path: Path, base: Path, novel: Path, adapt: Adapt) -> None:
    first = adapt(plain_path, "static-nsn", *QUICK)
    second = adapt(first.path, "static-nsn", *QUICK, data=base)
    assert second.config.labels == ("a", "b", "c", "d")
    assert second.config.adapted is not None
    assert second.config.adapted["start"]["classes"] == list("abcduvwxyz")
    images = torch.from_numpy(first.samples.images)
    found = load_novel_images(first, {"path": str(base)})
    assert found.trained_classes == ("a", "b", "c", "d")
    method = METHODS["static-nsn"].build(
        MethodContext(artifact=first, network=FeatureNetwork.of(first), ways=4, settings=parse_settings(QUICK))
    )
    support = SupportSet(torch.from_numpy(found.images.images), torch.from_numpy(found.images.labels), 4)
    torch.testing.assert_close(logits(second, images), method.classify(support, images), atol=1e-5, rtol=1e-5)


def test_the_command_says_what_it_made(
    plain_path: Path, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adapt", str(plain_path), str(tmp_path / "new"), "--data.path", str(base)]) == 0
    out, err = capsys.readouterr()
    assert "knows 4 classes: 'a', 'b', 'c', 'd'" in out.replace("\n", " ")
    assert "on its 96 support images themselves: accuracy" in out
    assert "trained on classes of the same names before: 'a', 'b', 'c', 'd'" in out
    assert err == "1/1  protonet: 96 images of 4 classes\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ["--method", "nearest"],
            2,
            "methods that can be saved are protonet, finetune, static-nsn, dynamic-nsn, maml,",
        ),
        (["--method", "matching"], 2, "compares with support images and is no network with a linear or cosine"),
        (["--method", "relationnet"], 2, "--method is 'relationnet', which compares"),
        (["--method", "protonett"], 2, "Did you mean protonet?"),
        (["--method", "finetune", "--train"], 2, "--train is given, but finetune is not trained on episodes"),
        (
            ["--data-path", "x"],
            2,
            "--data-path is given, which is read for training on episodes alone, but protonet is",
        ),
        (["--method", "maml"], 2, "as many classes as the support set has, 6, but"),
        (
            ["--method", "protonet", "--finetune.epochs", "3"],
            2,
            "--finetune.* is given, but protonet has no use for it",
        ),
        (["--training.epochs", "3"], 2, "--training.epochs is no setting of `mntrain adapt`"),
        (["--shots", "0"], 2, "--shots is 0; it must be at least 1"),
        (["--shots", "10"], 1, "there are classes with fewer images: 'u' (9), 'v' (9)"),
        (["--seed", "-1"], 2, "--seed is -1"),
        (
            ["--method", "static-nsn", "--finetune.learning_rate", "100", "--finetune.similarity_rate", "100"],
            1,
            "finite",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    words: list[str],
    code: int,
    sentence: str,
    plain_path: Path,
    novel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "new"
    assert main(["adapt", str(plain_path), str(target), "--data.path", str(novel), "--json", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert not target.exists()


def test_nothing_is_replaced(plain_path: Path, novel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(plain_path), str(plain_path), "--data.path", str(novel)]) == 2
    assert "is there already; choose another folder" in capsys.readouterr().err
    before = sorted(plain_path.iterdir())
    for inside in ("new", "deep/er/new"):
        assert main(["adapt", str(plain_path), str(plain_path / inside), "--data.path", str(novel)]) == 2
        assert f"lies in the artifact {plain_path.resolve()}" in capsys.readouterr().err
    assert sorted(plain_path.iterdir()) == before


def test_too_few_training_images_are_those_of_the_artifact(
    plain_path: Path, four: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data.path", str(four), "--method", "maml", "--queries", "40"]
    assert main(["adapt", str(plain_path), str(tmp_path / "new"), *words]) == 1
    err = capsys.readouterr().err
    assert "but among the artifact's own training images there are classes with fewer" in err
    assert "choose --queries" in err
    assert "or take a method that is not trained on episodes" in err


@pytest.mark.parametrize("part", ["start", "support"])
def test_a_record_that_lacks_a_part_is_refused(
    plain_path: Path, adapt: Adapt, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = adapt(plain_path, "protonet").path / "config.json"
    values: dict[str, Any] = json.loads(file.read_text())
    del values["adapted"][part]
    file.write_text(json.dumps(values))
    assert main(["evaluate", str(file.parent)]) == 1
    assert "is not a valid artifact configuration: adapted" in capsys.readouterr().err

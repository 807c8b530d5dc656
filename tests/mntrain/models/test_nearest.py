"""The search, against one that holds all images and entries at once."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.layers.attention import SIMILARITIES
from mntrain.models import nearest
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.nearest import nearest_positions
from mntrain.training.artifact_data import load_split


def distances(model: MetaNeighborhoods, features: torch.Tensor) -> torch.Tensor:
    """[N, S] in float64, as the words say: one minus the cosine, or the length of the difference."""
    z, keys = features.double()[:, None], model.dictionary.keys.double()[None]
    if model.similarity == "cosine":
        return 1 - torch.cosine_similarity(z, keys, dim=-1)
    return (z - keys).norm(dim=-1)


@pytest.fixture
def artifact_of(runs: Path) -> ImageArtifact:
    loaded = load_artifact(runs / "meta_neighborhoods" / "artifact")
    assert isinstance(loaded, ImageArtifact)
    return loaded


@pytest.mark.parametrize("scores", [1, 250, 4_000_000])
@pytest.mark.parametrize("kind", SIMILARITIES)
def test_the_nearest_images_are_those_of_a_search_over_everything(
    artifact_of: ImageArtifact, kind: str, scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = artifact_of.model
    assert isinstance(model, MetaNeighborhoods)
    monkeypatch.setattr(model, "similarity", kind)
    monkeypatch.setattr(nearest, "_BATCH", 97)
    monkeypatch.setattr(nearest, "_MOST_SCORES", 13 * scores)
    train = load_split(artifact_of.config, "train")
    seen: list[int] = []
    found = nearest_positions(model, artifact_of.preprocessing, train.inputs, 4, seen.append)
    assert found.shape == (60, 4)
    assert found.dtype == np.int64
    assert sum(seen) == len(train)
    assert all(len(set(row)) == 4 for row in found.tolist())
    with torch.inference_mode():
        features = model.backbone(artifact_of.preprocessing(torch.from_numpy(train.inputs)))
    every = distances(model, features)
    shown = every.gather(0, torch.from_numpy(found).mT)
    torch.testing.assert_close(shown, every.sort(dim=0).values[:4], rtol=1e-4, atol=1e-6)
    best = every.argmin(dim=0).numpy()
    assert np.mean(found[:, 0] == best) > 0.9, "equal distances aside, these are the same images"


def test_no_more_than_a_block_of_similarities_is_held(
    artifact_of: ImageArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    compare = MetaNeighborhoods.comparable_similarity

    def watched(self: MetaNeighborhoods, queries: torch.Tensor, entries: slice | torch.Tensor) -> torch.Tensor:
        scores = compare(self, queries, entries)
        sizes.append(scores.numel())
        return scores

    monkeypatch.setattr(MetaNeighborhoods, "comparable_similarity", watched)
    monkeypatch.setattr(nearest, "_BATCH", 50)
    monkeypatch.setattr(nearest, "_MOST_SCORES", 1000)
    images = artifact_of.samples.images
    nearest_positions(artifact_of.model, artifact_of.preprocessing, images, 3)  # type: ignore[arg-type]
    assert max(sizes) <= 1000
    assert sum(sizes) == len(images) * 60


def test_of_equal_images_the_first_ones_stay(artifact_of: ImageArtifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "_BATCH", 2)
    images = np.repeat(artifact_of.samples.images[:1], 8, axis=0)
    found = nearest_positions(artifact_of.model, artifact_of.preprocessing, images, 2)  # type: ignore[arg-type]
    assert set(found.ravel().tolist()) == {0, 1}


def test_many_images_that_are_equally_near_are_kept_in_the_order_of_the_batches(
    artifact_of: ImageArtifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorting that is not stable leaves short rows alone, and mixes long ones."""
    monkeypatch.setattr(nearest, "_BATCH", 20)
    images = np.repeat(artifact_of.samples.images[:1], 80, axis=0)
    found = nearest_positions(artifact_of.model, artifact_of.preprocessing, images, 20)  # type: ignore[arg-type]
    assert set(found.ravel().tolist()) == set(range(20))

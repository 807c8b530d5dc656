"""The file in the artifact: what was found comes back, and what does not fit is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.errors import ArtifactError
from mntrain.models.nearest import nearest_positions
from mntrain.neighbors import adding
from mntrain.neighbors.adding import NeighborOptions, add_neighbors
from mntrain.neighbors.file import NAME, read_neighbors
from mntrain.training.artifact_data import load_split


def loaded(path: Path) -> ImageArtifact:
    artifact = load_artifact(path)
    assert isinstance(artifact, ImageArtifact)
    return artifact


@pytest.fixture
def added(artifact: Path) -> Path:
    """The artifact, with two images for each entry."""
    add_neighbors(NeighborOptions(artifact=artifact, images=2, quiet=True))
    return artifact


def test_stored_neighbors_are_read_back_unchanged(added: Path) -> None:
    artifact = loaded(added)
    found = read_neighbors(artifact)
    assert found is not None
    train = load_split(artifact.config, "train")
    np.testing.assert_array_equal(found.images, train.inputs[found.positions])
    np.testing.assert_array_equal(found.labels, train.targets[found.positions])
    assert found.indices.shape == (60, 2)
    assert len(np.unique(found.positions)) == len(found.positions) == len(np.unique(found.indices))
    assert found.size == sum(array.nbytes for array in load_file(str(added / NAME)).values())


def test_an_artifact_without_the_file_carries_none(artifact: Path) -> None:
    assert read_neighbors(loaded(artifact)) is None


def test_a_second_call_replaces_the_neighbors(added: Path) -> None:
    add_neighbors(NeighborOptions(artifact=added, images=1, quiet=True))
    found = read_neighbors(loaded(added))
    assert found is not None
    assert found.indices.shape == (60, 1)
    assert [item.name for item in added.iterdir() if item.name.startswith(".")] == []


@pytest.mark.parametrize("size", [0, 5, 400, -1])
def test_a_truncated_file_is_named(added: Path, size: int) -> None:
    file = added / NAME
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ArtifactError, match=r"neighbors\.safetensors is damaged .*`mntrain neighbors .*or remove it"):
        read_neighbors(loaded(added))


def test_a_link_to_nothing_is_named(added: Path, tmp_path: Path) -> None:
    (added / NAME).unlink()
    (added / NAME).symlink_to(tmp_path / "moved")
    with pytest.raises(ArtifactError, match=r"neighbors\.safetensors is a link to .*moved, which is not there; make"):
        read_neighbors(loaded(added))


def test_one_changed_pixel_is_noticed(added: Path) -> None:
    rewrite(added, lambda arrays: arrays["images"].__setitem__((0, 0, 0, 0), arrays["images"][0, 0, 0, 0] ^ 1))
    with pytest.raises(ArtifactError, match=r"is damaged \(the digest of its arrays is .*or remove it"):
        read_neighbors(loaded(added))


def test_weights_that_change_during_the_search_are_not_vouched_for(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(*fields: Any, **named: Any) -> Any:
        weights = load_file(str(artifact / "model.safetensors"))
        weights["dictionary.keys"] = -weights["dictionary.keys"]
        save_file(weights, str(artifact / "model.safetensors"))
        return nearest_positions(*fields, **named)

    monkeypatch.setattr(adding, "nearest_positions", search)
    with pytest.raises(ArtifactError, match=r"changed while its neighbors were looked for .*Nothing was written"):
        add_neighbors(NeighborOptions(artifact=artifact, images=1, quiet=True))
    assert not (artifact / NAME).exists()


def test_neighbors_belong_to_the_weights_that_were_loaded(added: Path) -> None:
    """A file of weights that changes after loading makes no difference."""
    artifact = loaded(added)
    (added / "model.safetensors").write_bytes(b"of another training")
    assert read_neighbors(artifact) is not None


def rewrite(artifact: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the arrays and keep the digests."""
    file = artifact / NAME
    with safe_open(str(file), framework="np") as stored:
        digests = stored.metadata()
    arrays = load_file(str(file))
    change(arrays)
    save_file(arrays, str(file), metadata=digests)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.pop("labels"), "labels"),
        (lambda a: a.update(images=a["images"].astype(np.float32)), "images are float32"),
        (lambda a: a.update(images=np.array(3, dtype=np.uint8)), r"images are uint8 of shape \[\]"),
        (lambda a: a.update(indices=a["indices"].astype(np.int64)), "indices are int64"),
        (lambda a: a.update(labels=a["labels"][:-1]), "labels and"),
        (lambda a: a["indices"].__setitem__((0, 0), len(a["images"])), "there are .* images"),
        (lambda a: a["indices"].__setitem__((0, 0), -1), "indices run from -1"),
        (lambda a: a["positions"].__setitem__(0, -1), "do not ascend"),
        (lambda a: a["positions"].__setitem__(1, a["positions"][0]), "do not ascend"),
        (lambda a: a.update(images=a["images"][:0], labels=a["labels"][:0], positions=a["positions"][:0]), "length 0"),
        (lambda a: a.update(indices=a["indices"][:59]), "images of 59 entries, the dictionary has 60"),
        (lambda a: a["labels"].__setitem__(0, 10), "labels from 0 to 10, the model has 10"),
        (lambda a: a["labels"].__setitem__(0, -1), "labels from -1"),
        (lambda a: a.update(images=np.ascontiguousarray(a["images"][..., :7])), r"\[1, 8, 7\], the model takes"),
    ],
)
def test_arrays_that_contradict_something_are_explained(
    added: Path, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    rewrite(added, change)
    with pytest.raises(ArtifactError, match=rf"neighbors\.safetensors .*{words}.*or remove it"):
        read_neighbors(loaded(added))


def test_images_of_another_training_are_refused(added: Path, runs: Path) -> None:
    """The same entries, classes and images, but other weights: what was near need not be near now."""
    weights = load_file(str(added / "model.safetensors"))
    weights["dictionary.keys"] = -weights["dictionary.keys"]
    save_file(weights, str(added / "model.safetensors"))
    with pytest.raises(ArtifactError, match="made with other weights than the artifact's"):
        read_neighbors(loaded(added))


def test_images_of_other_data_are_refused(added: Path) -> None:
    file = added / "config.json"
    values = json.loads(file.read_text())
    values["split"]["sha256"] = "0" * 64
    file.write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=r"other data than the artifact's .*expected 000000000000…"):
        read_neighbors(loaded(added))


def test_a_file_that_names_no_digests_is_refused(added: Path) -> None:
    save_file(load_file(str(added / NAME)), str(added / NAME))
    with pytest.raises(ArtifactError, match=r"other weights .*digest none"):
        read_neighbors(loaded(added))

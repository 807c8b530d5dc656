"""Room for copies: what is removed for a new one, and what stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from file_store import FileStore

from mnserve.errors import CorruptModelError, ModelCacheError
from mnserve.object_store.cache import Cache
from mnserve.object_store.mirror import Mirror
from mnserve.object_store.room import make_room
from mnserve.object_store.view import linked_copies
from mnserve.repository.reader import read_config

MakeMirror = Callable[..., Mirror]
Content = Callable[[Path], dict[str, bytes]]


def copies(cache: Path, name: str = "a") -> list[Path]:
    """Complete copies of a model."""
    return sorted(path.with_suffix("") for path in cache.glob(f"repositories/*/{name}/*.json"))


def test_the_copy_that_was_unused_for_longest_makes_room(
    store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    store.files = {f"models/{name}/1/model.onnx": os.urandom(100_000) for name in "abc"}
    for name in "ab":
        mirror = mirror_of(f"{store.url}/models", only=[name])
        mirror.fetch()
        mirror.close()
    (first,), (second,) = copies(cache, "a"), copies(cache, "b")
    os.utime(first.with_suffix(".json"), (1, 1))
    mirror = mirror_of(f"{store.url}/models", only=["c"], model_cache_bytes=250_000)
    mirror.fetch()
    assert not first.exists()
    assert second.exists()
    fourth = mirror_of(f"{store.url}/models", only=["a", "b"], model_cache_bytes=250_000)
    fourth.fetch()
    assert copies(cache, "c"), "a copy in use stays"
    with pytest.raises(CorruptModelError, match="model 'b' needs 100000 bytes more"):
        read_config(fourth.folder, "b")
    assert set(content(fourth.folder)) > {"a/1/model.onnx"}


def test_a_copy_stays_that_came_into_use_while_room_was_looked_for(
    store: FileStore, mirror_of: MakeMirror, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.files = {"models/a/1/model.onnx": os.urandom(100_000)}
    mirror_of(f"{store.url}/models", only=["a"]).fetch()
    looks: list[set[str]] = []

    def linked(of: Cache) -> set[str]:
        looks.append(linked_copies(of) if looks else set())
        return looks[-1]

    monkeypatch.setattr("mnserve.object_store.room.linked_copies", linked)
    with pytest.raises(ModelCacheError, match="needs 1 bytes more"):
        make_room(Cache(cache), 1, 1, cache / "b")
    (copy,) = copies(cache, "a")
    assert looks == [set(), {str(copy)}]
    assert copy.exists()


def test_earlier_copies_of_the_same_model_make_room(
    store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models", only=["a"], model_cache_bytes=250_000)
    for _ in range(4):
        model = os.urandom(100_000)
        store.files = {"models/a/1/model.onnx": model}
        mirror.poll()
        assert content(mirror.folder) == {"a/1/model.onnx": model}
    assert len(copies(cache)) == 2, "the one before was linked while the last was made"


def test_what_killed_downloads_have_left_makes_room(
    store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    mirror_of(f"{store.url}/models", only=["b"]).fetch()
    (copy,) = copies(cache, "b")
    lefts = [copy.parent / name / "file" for name in (".partial", ".new-0123")]
    for left in lefts:
        left.parent.mkdir()
        left.write_bytes(bytes(100_000))
    store.files["models/a/2/model.onnx"] = os.urandom(200_000)
    mirror_of(f"{store.url}/models", only=["a"], model_cache_bytes=250_000).fetch()
    assert len(copies(cache, "a")) == 1
    assert not [left for left in lefts if left.parent.exists()]
    assert copy.exists()


def test_there_has_to_be_room(store: FileStore, mirror_of: MakeMirror, cache: Path) -> None:
    mirror = mirror_of(f"{store.url}/models", model_cache_bytes=100)
    mirror.fetch()
    with pytest.raises(CorruptModelError, match=r"model 'a' needs \d+ bytes more .* a bound of 100 bytes"):
        read_config(mirror.folder, "a")
    cache.chmod(0o700)
    (cache.parent / "file").write_text("")
    with pytest.raises(ModelCacheError, match="name another folder with --model-cache"):
        mirror_of(f"{store.url}/models", model_cache=str(cache.parent / "file"))

"""A store that is not to be trusted: names, links, lengths and answers that would do harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from file_store import FileStore
from fsspec.implementations.local import LocalFileSystem

from mnserve.errors import CorruptModelError, ModelCacheError, RepositoryError, StoreError
from mnserve.object_store.cache import Cache
from mnserve.object_store.mirror import Mirror
from mnserve.object_store.redaction import Redactor
from mnserve.repository.listing import list_models
from mnserve.repository.reader import read_config

MakeMirror = Callable[..., Mirror]
Content = Callable[[Path], dict[str, bytes]]


@pytest.mark.parametrize("name", ["../../outside", "..", "1/../../outside", "x\\y", "a\nb", "%00", "n" * 300])
def test_names_that_lead_elsewhere_are_refused(name: str, store: FileStore, mirror_of: MakeMirror, cache: Path) -> None:
    link = name if "%" in name else "".join(f"%{byte:02x}" for byte in name.encode())
    store.links["models/a/1"] = [link]
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    with pytest.raises(RepositoryError, match=r"the name .* in the store|rename it there"):
        read_config(mirror.folder, "a")
    assert not [path for path in cache.parent.rglob("*") if "outside" in path.name]
    assert list_models(mirror.folder) == ["a", "b"]


def test_links_of_a_folder_stay_in_the_repository(tmp_path: Path, mirror_of: MakeMirror, content: Content) -> None:
    root = tmp_path / "repository"
    (root / "a" / "1").mkdir(parents=True)
    (root / "a" / "1" / "model.onnx").write_bytes(b"1")
    (root / "b").symlink_to(root / "a")
    (root / "c" / "1").mkdir(parents=True)
    (tmp_path / "secret").write_text("s")
    (root / "c" / "1" / "model.onnx").symlink_to(tmp_path / "secret")
    (root / "d").symlink_to(tmp_path)
    mirror = mirror_of(f"file://{root}")
    mirror.fetch()
    assert content(mirror.folder)["b/1/model.onnx"] == b"1"
    for name in ("c", "d"):
        with pytest.raises(CorruptModelError, match="is a link out of the repository"):
            read_config(mirror.folder, name)


def test_a_huge_listing_is_refused(store: FileStore, mirror_of: MakeMirror) -> None:
    store.links["models"] = [f"model{number}/" for number in range(10_001)]
    mirror = mirror_of(f"{store.url}/models")
    with pytest.raises(StoreError, match="more than 10000 entries"):
        mirror.fetch()
    store.links = {"models/a": [f"file{number}" for number in range(10_001)]}
    mirror.fetch()
    with pytest.raises(CorruptModelError, match=r"model 'a' .* more than 10000 entries"):
        read_config(mirror.folder, "a")


@pytest.mark.parametrize(
    ("length", "reason"),
    [(str(10**18), "needs 1000000000000000000 bytes more"), ("-5", "does not answer"), ("9" * 5000, "does not answer")],
)
def test_lengths_that_cannot_be_are_refused(
    length: str, reason: str, store: FileStore, mirror_of: MakeMirror, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    before = content(mirror.folder)
    store.files["models/b/2/model.onnx"] = b"new"
    store.headers["models/b/2/model.onnx"] = {"Content-Length": length}
    with pytest.raises(RepositoryError, match=reason):
        mirror.fetch_model("b")
    assert content(mirror.folder) == before


def test_a_store_cannot_write_control_characters_to_the_terminal() -> None:
    assert Redactor([], {}).error(OSError("to \x1b[31mfile:///etc\x07")) == r"OSError: to \x1b[31mfile:///etc\x07"


@pytest.mark.parametrize("folder", ["repositories", "views"])
def test_a_cache_that_every_user_may_write_to_is_refused(folder: str, cache: Path) -> None:
    Cache(cache)
    cache.chmod(0o777)
    Cache(cache)
    (cache / folder).chmod(0o777)
    with pytest.raises(ModelCacheError, match=f"every user of this machine may write to .*{folder}"):
        Cache(cache)


def test_files_must_have_tags_and_sizes(store: FileStore, mirror_of: MakeMirror) -> None:
    store.tagged = False
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    with pytest.raises(CorruptModelError, match="sends neither ETag nor Last-Modified"):
        read_config(mirror.folder, "a")


def test_a_file_without_a_size_is_not_begun(
    mirror_of: MakeMirror, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "models" / "a" / "1").mkdir(parents=True)
    (tmp_path / "models" / "a" / "1" / "model.onnx").write_bytes(b"1")
    info = LocalFileSystem.info
    monkeypatch.setattr(LocalFileSystem, "info", lambda *given, **also: {**info(*given, **also), "size": None})
    mirror = mirror_of(f"file://{tmp_path}/models")
    mirror.fetch()
    with pytest.raises(CorruptModelError, match=r"does not tell the size of '1/model.onnx'"):
        read_config(mirror.folder, "a")

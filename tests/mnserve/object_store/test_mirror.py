"""The folder that stands for a repository in a store: which files it has, and how it follows the store."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from file_store import FileStore
from hub_server import HubServer, Repository

from mnserve.errors import (
    CorruptModelError,
    StoreError,
    StoreUnreachableError,
    UnknownModelError,
)
from mnserve.object_store.mirror import Mirror
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.listing import list_models
from mnserve.repository.reader import list_versions, read_config

MakeMirror = Callable[..., Mirror]
Content = Callable[[Path], dict[str, bytes]]
LATEST = {"a/config.pbtxt", "a/labels.txt", "a/2/model.onnx", "b/1/model.onnx"}


def test_only_the_versions_that_are_served_are_copied(
    store: FileStore, mirror_of: MakeMirror, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    copied = content(mirror.folder)
    assert set(copied) == LATEST
    assert all(store.files[f"models/{path}"] == bytes_ for path, bytes_ in copied.items())
    assert list_versions(mirror.folder, "a") == [2]
    store.files["models/a/config.pbtxt"] = b"version_policy { specific { versions: 1 } }"
    mirror.poll()
    assert set(content(mirror.folder)) == {"a/config.pbtxt", "a/labels.txt", "a/1/model.onnx", "b/1/model.onnx"}


def test_a_look_at_an_unchanged_store_downloads_nothing(
    store: FileStore, mirror_of: MakeMirror, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    target = os.readlink(mirror.folder / "a")
    store.begun.clear()
    mirror.poll()
    assert not store.begun
    store.files["models/a/3/model.onnx"] = b"third"
    mirror.poll()
    assert set(store.begun) == {"models/a/3/model.onnx"}, "unchanged files are not downloaded again"
    assert os.readlink(mirror.folder / "a") != target
    assert content(mirror.folder)["a/3/model.onnx"] == b"third"
    del store.files["models/b/1/model.onnx"]
    mirror.poll()
    assert list_models(mirror.folder) == ["a"]


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_other_stores(scheme: str, tmp_path: Path, mirror_of: MakeMirror, content: Content) -> None:
    root = str(tmp_path / "repository")
    files = fsspec.filesystem(scheme)
    for path, text in {"a/1/model.onnx": b"1", "a/2/model.onnx": b"2", "a/.new/x": b"0", "notes.txt": b"n"}.items():
        files.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        files.pipe_file(f"{root}/{path}", text)
    mirror = mirror_of(f"{scheme}://{root.lstrip('/') if scheme == 'memory' else root}")
    mirror.fetch()
    assert content(mirror.folder) == {"a/2/model.onnx": b"2"}
    files.pipe_file(f"{root}/a/2/model.onnx", b"two")
    mirror.poll()
    assert content(mirror.folder) == {"a/2/model.onnx": b"two"}
    files.rm(root, recursive=True)


def test_a_hub_is_asked_by_commit_and_its_digests_are_compared(
    mirror_of: MakeMirror, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HubServer() as hub:
        constants = "huggingface_hub.constants"
        monkeypatch.setattr(f"{constants}.ENDPOINT", hub.url)
        files = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", files)
        branch = (hub.repositories.setdefault("org/nets", Repository())).branches["main"]
        branch.update({"served/a/1/model.onnx": b"one", "served/a/config.pbtxt": b"max_batch_size: 2"})
        mirror = mirror_of("hf://org/nets/served")
        mirror.fetch()
        assert content(mirror.folder) == {"a/1/model.onnx": b"one", "a/config.pbtxt": b"max_batch_size: 2"}
        for name, damaged in (("2/model.onnx", b"twp"), ("labels.txt", b"cau")):
            branch[f"served/a/{name}"] = b"two" if "model" in name else b"cat"
            hub.tampered[f"served/a/{name}"] = damaged
            with pytest.raises(CorruptModelError, match=rf"'{name}' arrived with the (SHA256|git object id)"):
                mirror.fetch_model("a")
            hub.tampered.clear()
            mirror.fetch_model("a")
        assert content(mirror.folder)["a/2/model.onnx"] == b"two"


def test_a_store_that_goes_away_leaves_what_is_served(
    store: FileStore, mirror_of: MakeMirror, content: Content, caplog: pytest.LogCaptureFixture
) -> None:
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    caplog.clear()
    files, store.files = store.files, {}
    store.links["models"] = []
    for status in (503, 403, 404, 0):
        store.status = status
        mirror.poll()
    assert set(content(mirror.folder)) == LATEST
    assert len(caplog.records) == 1
    store.files = files
    caplog.set_level(logging.INFO)
    mirror.poll()
    assert "answers again" in caplog.text


def test_a_first_look_tells_what_is_wrong(store: FileStore, mirror_of: MakeMirror) -> None:
    mirror = mirror_of(f"{store.url}/models")
    for status, kind, words in (
        (503, StoreUnreachableError, r"cannot give the model folders now \(HTTP 503\)"),
        (403, StoreError, r"refuses to give the model folders \(HTTP 403\); give https://NAME"),
        (404, StoreError, "does not have the model folders; give the URL of the folder"),
    ):
        store.status = status
        with pytest.raises(kind, match=words):
            mirror.fetch()
    gone = mirror_of("http://127.0.0.1:9/models")
    with pytest.raises(StoreUnreachableError, match="does not answer for the model folders: Conn"):
        gone.fetch()


def test_a_store_that_never_answers_is_given_up(store: FileStore, mirror_of: MakeMirror) -> None:
    given_up = threading.Event()
    store.before_piece = lambda _: given_up.wait(60)
    mirror = mirror_of(f"{store.url}/models", store_timeout=0.5)
    with pytest.raises(StoreUnreachableError, match=r"has not sent|does not answer"):
        mirror.fetch()
    given_up.set()


def test_an_unreadable_model_leaves_the_others_alone(store: FileStore, mirror_of: MakeMirror, content: Content) -> None:
    store.files["models/a/config.pbtxt"] = b"no configuration"
    store.files["models/c/1/model.onnx"] = b"x"
    store.files["models/c/1/MODEL.onnx"] = b"y"
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    assert list_models(mirror.folder) == ["a", "b", "c"]
    for name, reason in (("a", "does not parse"), ("c", "differ by case alone")):
        with pytest.raises(CorruptModelError, match=reason):
            read_config(mirror.folder, name)
    store.files["models/a/config.pbtxt"] = b"max_batch_size: 4"
    del store.files["models/c/1/MODEL.onnx"]
    mirror.poll()
    assert content(mirror.folder)["c/1/model.onnx"] == b"x"
    assert read_config(mirror.folder, "a").max_batch_size == 4


def test_a_folder_that_is_no_model_is_not_copied(
    store: FileStore, mirror_of: MakeMirror, caplog: pytest.LogCaptureFixture
) -> None:
    store.files["models/weights/shard/1.bin"] = b"large"
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    mirror.poll()
    assert list_models(mirror.folder) == ["a", "b"]
    assert not [path for path in store.begun if "weights" in path]
    assert caplog.text.count("'weights' of the repository has neither a version folder, such as weights/1, nor a") == 1
    with pytest.raises(UnknownModelError, match="is no model"):
        mirror.fetch_model("weights")
    store.files["models/weights/1/model.onnx"] = b"a model now"
    mirror.poll()
    assert list_models(mirror.folder) == ["a", "b", "weights"]


def test_models_that_were_not_asked_for_are_listed_and_copied_on_demand(
    store: FileStore, mirror_of: MakeMirror, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models", only=["b"])
    mirror.fetch()
    assert list_models(mirror.folder) == ["a", "b"]
    assert not any("models/a" in path for path in store.begun)
    mirror.fetch_model("a")
    assert set(content(mirror.folder)) == LATEST
    every = ModelConfig(name="a")
    every.version_policy.all.SetInParent()
    mirror.fetch_model("a", every)
    assert list_versions(mirror.folder, "a") == [1, 2]
    for name in ("c", "", ".", "..", "../models/a", "a/1", "a\0", ".stand-ins"):
        before = len(store.requests)
        with pytest.raises(UnknownModelError, match="has no model"):
            mirror.fetch_model(name)
        assert name == "c" or len(store.requests) == before, "a bad name is not asked for"
    store.files = {path: text for path, text in store.files.items() if "/a/" not in path}
    with pytest.raises(UnknownModelError):
        mirror.fetch_model("a")
    assert list_models(mirror.folder) == ["b"]


def test_hashes_of_a_publish_are_compared_and_a_damaged_version_is_not_fetched_in_every_look(
    store: FileStore, mirror_of: MakeMirror, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    model = b"third" * 100
    store.tampered["models/a/3/model.onnx"] = b"thire" + model[5:]
    export = {"sha256": {"model.onnx": hashlib.sha256(model).hexdigest()}}
    store.files |= {"models/a/3/model.onnx": model, "models/a/3/export.json": json.dumps(export).encode()}
    mirror.poll()
    assert set(content(mirror.folder)) == LATEST
    tries = len(store.begun["models/a/3/model.onnx"])
    assert tries == 3
    mirror.poll()
    assert len(store.begun["models/a/3/model.onnx"]) == tries
    with pytest.raises(CorruptModelError, match=r"has SHA-256 .* upload the version again"):
        mirror.fetch_model("a")
    store.tampered.clear()
    mirror.fetch_model("a")
    assert content(mirror.folder)["a/3/model.onnx"] == model


def test_a_model_that_changes_while_it_is_copied_is_copied_again(
    store: FileStore, mirror_of: MakeMirror, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mnserve.object_store import copying as module

    changes = iter([b"renewed", b"renewed again"])

    def change_after(*arguments: object) -> Path:
        copy = make_copy(*arguments)  # type: ignore[arg-type]
        store.files["models/b/1/model.onnx"] = next(changes, store.files["models/b/1/model.onnx"])
        return copy

    make_copy = module.make_copy
    monkeypatch.setattr(module, "make_copy", change_after)
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    assert content(mirror.folder)["b/1/model.onnx"] == b"renewed again"

"""A web server with one model in two versions, and mirrors of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from file_store import FileStore

from mnserve.object_store.mirror import Mirror
from mnserve.object_store.settings import StoreSettings

MakeMirror = Callable[..., Mirror]


@pytest.fixture
def store() -> Iterator[FileStore]:
    with FileStore() as server:
        server.files = {
            "models/a/config.pbtxt": b"max_batch_size: 4",
            "models/a/labels.txt": b"cat\ndog",
            "models/a/1/model.onnx": b"first",
            "models/a/2/model.onnx": b"second" * 1000,
            "models/b/1/model.onnx": b"other",
        }
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def mirror_of(cache: Path) -> Iterator[MakeMirror]:
    """Makes mirrors that end with the test: ``mirror_of(url, only=["a"], model_cache_bytes=1000)``."""
    made: list[Mirror] = []

    def make(url: str, *, only: list[str] | None = None, keep_last: bool = True, **fields: Any) -> Mirror:
        settings = StoreSettings(**{"model_cache": str(cache), "store_patience": 0.0, **fields})
        made.append(Mirror(url, settings, only=only, keep_last=keep_last))
        return made[-1]

    yield make
    for mirror in made:
        mirror.close()


@pytest.fixture
def content() -> Callable[[Path], dict[str, bytes]]:
    """Reads the files of a folder: path -> content, without what begins with a dot."""

    def read(folder: Path) -> dict[str, bytes]:
        files = {}
        for model in folder.iterdir():
            if not model.name.startswith("."):
                for path in model.resolve().rglob("*"):
                    if path.is_file():
                        files[f"{model.name}/{path.relative_to(model.resolve())}"] = path.read_bytes()
        return files

    return read

"""Copies on the disk: interrupted, damaged, and made by several processes at once."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from file_store import FileStore

from mnserve.errors import CorruptModelError, StoppingError, StoreUnreachableError
from mnserve.object_store.download import download
from mnserve.object_store.entries import StoredFile
from mnserve.object_store.mirror import Mirror
from mnserve.object_store.store import Store
from mnserve.object_store.url import parse_url
from mnserve.repository.reader import read_config

MakeMirror = Callable[..., Mirror]
Content = Callable[[Path], dict[str, bytes]]
FETCH = """
import sys
from mnserve.object_store.mirror import Mirror
from mnserve.object_store.settings import StoreSettings
mirror = Mirror(sys.argv[1], StoreSettings(model_cache=sys.argv[2]))
mirror.fetch()
print(sorted(path.name for path in mirror.folder.iterdir()))
mirror.close()
"""


def fetch_elsewhere(url: str, cache: Path) -> subprocess.Popen[str]:
    """Starts a process that copies a repository."""
    return subprocess.Popen([sys.executable, "-c", FETCH, url, str(cache)], stdout=subprocess.PIPE, text=True)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def copies(cache: Path, name: str = "a") -> list[Path]:
    """Complete copies of a model."""
    return sorted(path.with_suffix("") for path in cache.glob(f"repositories/*/{name}/*.json"))


def cut_off(store: FileStore, mirror: Mirror, cache: Path) -> int:
    """Copies ``b``, whose model ends after 200,000 bytes; returns how many of them have arrived."""

    def partial() -> int:
        return sum(path.stat().st_size for path in cache.glob("repositories/*/b/.partial/*"))

    # A client may drop what it has not looked at yet when the connection ends.
    store.cut, store.before_piece = 200_000, lambda sent: sent and wait_until(partial)
    mirror.fetch()
    assert not copies(cache, "b")
    with pytest.raises(CorruptModelError, match=r"does not answer for the file '1/model.onnx'"):
        read_config(mirror.folder, "b")
    assert 0 < partial() <= 200_000
    store.cut = 0
    store.begun.clear()
    return partial()


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_is_gone_on_with(
    ranges: bool, store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    model = store.files["models/b/1/model.onnx"] = os.urandom(300_000)
    mirror = mirror_of(f"{store.url}/models")
    arrived = cut_off(store, mirror, cache)
    store.ranges = ranges
    mirror.poll()
    assert content(mirror.folder)["b/1/model.onnx"] == model
    assert store.begun["models/b/1/model.onnx"] == ([arrived] if ranges else [arrived, arrived, 0])


def test_what_has_arrived_stays_where_the_connection_ends_again(
    store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    model = store.files["models/b/1/model.onnx"] = os.urandom(300_000)
    mirror = mirror_of(f"{store.url}/models")
    arrived = cut_off(store, mirror, cache)
    store.cut = 1
    mirror.poll()
    store.cut = 0
    mirror.poll()
    assert content(mirror.folder)["b/1/model.onnx"] == model
    assert store.begun["models/b/1/model.onnx"] == [arrived, arrived]


@pytest.mark.parametrize("status", [416, 500])
def test_a_file_of_which_the_store_gives_no_part_is_asked_for_from_its_beginning(
    status: int, store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    model = store.files["models/b/1/model.onnx"] = os.urandom(300_000)
    mirror = mirror_of(f"{store.url}/models")
    cut_off(store, mirror, cache)
    store.range_status = status
    mirror.poll()
    mirror.poll()
    assert content(mirror.folder)["b/1/model.onnx"] == model


def test_a_download_that_was_killed_is_gone_on_with(store: FileStore, mirror_of: MakeMirror, cache: Path) -> None:
    model = store.files["models/a/2/model.onnx"] = os.urandom(4 * 2**20)
    killed = threading.Event()
    store.before_piece = lambda sent: sent < 2 * 2**20 or killed.wait(60)
    process = fetch_elsewhere(f"{store.url}/models", cache)
    wait_until(lambda: any(path.stat().st_size > 2**20 for path in cache.glob("repositories/*/a/.partial/*")))
    process.kill()
    process.communicate()
    killed.set()
    assert not copies(cache), "half a model is no copy"
    assert len(list((cache / "views").iterdir())) == 2
    arrived = max(path.stat().st_size for path in cache.glob("repositories/*/a/.partial/*"))
    store.begun.clear()
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    assert store.begun["models/a/2/model.onnx"][0] == arrived
    assert (mirror.folder / "a" / "2" / "model.onnx").read_bytes() == model
    assert len(list((cache / "views").iterdir())) == 2, "the folder of the killed process is gone"
    assert not list(cache.glob("repositories/*/a/.*/*"))


def test_a_copy_that_was_damaged_on_the_disk_is_made_again(
    store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    mirror_of(f"{store.url}/models").fetch()
    (copy,) = copies(cache)
    model = copy / "2" / "model.onnx"
    model.write_bytes(b"S" + model.read_bytes()[1:])
    store.begun.clear()
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    assert content(mirror.folder)["a/2/model.onnx"] == store.files["models/a/2/model.onnx"]
    assert "models/a/2/model.onnx" in store.begun
    assert "models/b/1/model.onnx" not in store.begun


def test_a_copy_that_was_removed_by_hand_is_made_again(
    store: FileStore, mirror_of: MakeMirror, cache: Path, content: Content
) -> None:
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    shutil.rmtree(cache / "repositories")
    mirror.poll()
    assert content(mirror.folder)["a/2/model.onnx"] == store.files["models/a/2/model.onnx"]


def test_a_checksum_of_the_store_is_compared(store: FileStore, mirror_of: MakeMirror) -> None:
    content = store.files["models/b/1/model.onnx"]
    digest = base64.b64encode(hashlib.md5(content).digest()).decode()
    store.headers["models/b/1/model.onnx"] = {"Content-MD5": digest}
    store.tampered["models/b/1/model.onnx"] = bytes([content[0] ^ 1]) + content[1:]
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    with pytest.raises(CorruptModelError, match=r"arrived with the MD5 .* upload it again"):
        read_config(mirror.folder, "b")


def test_several_processes_copy_a_model_once(store: FileStore, cache: Path) -> None:
    all_there = threading.Event()
    store.before_piece = lambda _: all_there.wait(60)
    processes = [fetch_elsewhere(f"{store.url}/models", cache) for _ in range(3)]
    wait_until(lambda: len(list(cache.glob("views/*.lock"))) == 3)
    all_there.set()
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs == ["['.stand-ins', 'a', 'b']\n"] * 3
    assert {name: len(begun) for name, begun in store.begun.items() if "model.onnx" in name} == {
        "models/a/2/model.onnx": 1,
        "models/b/1/model.onnx": 1,
    }
    assert not list((cache / "views").iterdir())


def test_a_stop_ends_a_wait_for_another_process(store: FileStore, mirror_of: MakeMirror, cache: Path) -> None:
    import fcntl

    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    (copy,) = copies(cache)
    with open(copy.parent / ".lock") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        store.files["models/a/3/model.onnx"] = b"third"
        mirror.stop()
        with pytest.raises(StoppingError):
            mirror.fetch_model("a")


def test_a_store_that_sends_too_little(store: FileStore, mirror_of: MakeMirror) -> None:
    mirror = mirror_of(f"{store.url}/models", only=["b"])
    store.cut = 2
    with pytest.raises(StoreUnreachableError, match="does not answer for the file"):
        mirror.fetch()


@pytest.mark.parametrize("pieces", [[b"four", b"five"], [b"fourfive"], [b"four", b"f", b"ive"]])
def test_a_store_that_sends_too_much(
    pieces: list[bytes], store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Store(parse_url(f"{store.url}/models"), timeout=60.0)
    monkeypatch.setattr(client, "read", lambda *_: iter(pieces))
    file = StoredFile(path="1/model.onnx", remote="", size=4, tag="")
    with pytest.raises(CorruptModelError, match="arrived with more bytes than the 4 that the store tells"):
        download(client, "b", file, tmp_path / "model", threading.Event())
    assert not list(tmp_path.iterdir())

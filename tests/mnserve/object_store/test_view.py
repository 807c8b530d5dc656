"""Views of processes: each stays as long as its process, whatever another process does at any moment in between."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mnserve.errors import ModelCacheError
from mnserve.object_store import cache as cache_module
from mnserve.object_store.cache import Cache, try_lock
from mnserve.object_store.view import View, linked_copies, remove_abandoned


@pytest.fixture
def shared(cache: Path) -> Cache:
    return Cache(cache)


def before_first_lock(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Has something happen once, between the making of a lock file and the taking of its lock."""
    flock = fcntl.flock

    def locked(handle: int, operation: int) -> None:
        monkeypatch.setattr(cache_module.fcntl, "flock", flock)
        act()
        flock(handle, operation)

    monkeypatch.setattr(cache_module.fcntl, "flock", locked)


def assert_kept(view: View, shared: Cache) -> None:
    copy = shared.repositories / "id" / "a" / "digest"
    view.link("a", copy)
    for _ in range(2):
        remove_abandoned(shared)
        assert linked_copies(shared) == {str(copy)}
    view.close()
    assert not list(shared.views.iterdir())


def test_a_view_whose_lock_file_is_removed_before_it_is_locked_gets_another(
    shared: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_first_lock(monkeypatch, lambda: remove_abandoned(shared))
    assert_kept(View(shared), shared)


def test_a_view_whose_lock_another_process_has_taken_gets_another(
    shared: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int | None] = []
    before_first_lock(monkeypatch, lambda: taken.extend(try_lock(path) for path in shared.views.glob("*.lock")))
    view = View(shared)
    (handle,) = taken
    assert handle is not None
    os.close(handle)
    remove_abandoned(shared)
    assert_kept(view, shared)


def test_a_lock_file_that_has_gone_is_not_made_again(shared: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = shared.views / f"{'0' * 16}.lock"
    abandoned.touch()
    before_first_lock(monkeypatch, lambda: remove_abandoned(shared))
    assert try_lock(abandoned, make=False) is None
    assert try_lock(abandoned, make=False) is None
    assert not abandoned.exists()


def test_a_view_that_was_left_without_its_lock_is_removed(shared: Cache) -> None:
    view = View(shared)
    left, other = shared.views / ("0" * 16), shared.views / "pages"
    for folder in (left, other):
        folder.mkdir()
        (folder / "a").symlink_to("copy")
    assert linked_copies(shared) == set()
    assert not left.exists()
    assert other.exists(), "what is not ours stays"
    assert view.folder.exists()


def test_links_that_change_meanwhile_do_not_hide_the_others(shared: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(shared)
    expected = {str(shared.repositories / "id" / name / "digest") for name in "abc"}
    for copy in expected:
        view.link(Path(copy).parent.name, Path(copy))
    readlink = os.readlink

    def read(path: Path) -> str:
        if path.name == ".renamed":
            path.unlink()
        return readlink(path)

    listed = [view.folder / name for name in (".renamed", "a", "b", "c")]
    (view.folder / ".renamed").symlink_to("elsewhere")
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(listed if folder == view.folder else ()))
    monkeypatch.setattr("mnserve.object_store.view.os.readlink", read)
    assert linked_copies(shared) == expected


def test_nothing_is_taken_for_unused_where_a_view_cannot_be_read(
    shared: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    View(shared)
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ModelCacheError, match="Permission denied"):
        linked_copies(shared)


def test_a_view_that_cannot_be_made_leaves_nothing(shared: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(ModelCacheError, match="No space left"):
        View(shared)
    assert not list(shared.views.iterdir())

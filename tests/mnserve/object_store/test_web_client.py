"""Web servers that are not to be trusted, or send elsewhere: pages, links and redirections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec.config
import pytest
from file_store import FileStore
from stand_in import QuietHandler, StandIn

from mnserve.errors import StoreError, StoreUnreachableError
from mnserve.object_store import web_client
from mnserve.object_store.mirror import Mirror
from mnserve.object_store.web_client import links_of

MakeMirror = Callable[..., Mirror]
Content = Callable[[Path], dict[str, bytes]]


class Redirector(StandIn):
    """Sends every request to another server."""

    def __init__(self, target: str) -> None:
        super().__init__(_Redirections)
        self.target = target


class _Redirections(QuietHandler):
    server: Redirector

    def do_GET(self) -> None:
        self.send(302, b"", {"Location": f"{self.server.target}{self.path}"})

    do_HEAD = do_GET


@pytest.fixture
def other_host(store: FileStore) -> Iterator[str]:
    """Address that leads to the store at another name of this machine."""
    with Redirector(store.url.replace("127.0.0.1", "localhost")) as server:
        yield server.url


def test_another_host_gets_no_secret_header(
    store: FileStore, other_host: str, mirror_of: MakeMirror, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {"X-Api-Key": "sesame", "Cookie": "session=sesame"}
    monkeypatch.setitem(fsspec.config.conf, "http", {"headers": secrets})
    mirror = mirror_of(f"{other_host.replace('://', '://joe:sesame@')}/models", only=["b"])
    mirror.fetch()
    assert content(mirror.folder)["b/1/model.onnx"] == b"other"
    asked = [{name.lower() for name in headers} for headers in store.seen]
    assert asked
    assert not [names for names in asked if names & {"x-api-key", "cookie", "authorization"}]
    store.seen.clear()
    mirror_of(f"{store.url}/models", only=["b"]).fetch()
    assert all(headers["X-Api-Key"] == "sesame" for headers in store.seen), "the host itself gets them"


def test_a_page_without_an_end_is_given_up(
    store: FileStore, mirror_of: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_client, "_MAX_BYTES", 5000)
    mirror = mirror_of(f"{store.url}/models")
    mirror.fetch()
    store.links["models"] = ["x" * 5000]
    with pytest.raises(StoreError, match="sends a page, or a part of a file, of more than 5000 bytes") as caught:
        mirror.fetch()
    assert not isinstance(caught.value, StoreUnreachableError)


@pytest.mark.parametrize("page", ["<a" + " " * 20_000, "<a " * 20_000, "<a href" * 20_000, "<a\nhref =" * 20_000])
def test_a_page_that_is_made_to_take_long_does_not(page: str, store: FileStore, mirror_of: MakeMirror) -> None:
    assert links_of(page) == []
    mirror = mirror_of(f"{store.url}/models")
    store.links["models"] = [page]
    mirror.fetch()  # of 20,000 spaces fsspec's own expression made hours


@pytest.mark.parametrize(
    ("tag", "link"),
    [
        ('<a href="a/">', "a/"),
        ("<A title='x' HREF = 'a%20b'>", "a%20b"),
        ('<a href="a&amp;b.onnx">', "a&b.onnx"),
        ('<a\thref="it&#39;s">', "it's"),
        ('<a data-href="x" href="y">', "y"),
    ],
)
def test_links_of_pages(tag: str, link: str) -> None:
    assert links_of(f"<pre>{tag}name</a> 1 MiB <address href='x'>\n{tag}") == [link, link]


def test_names_with_signs_of_html_are_copied(store: FileStore, mirror_of: MakeMirror, content: Content) -> None:
    names = ["it's.txt", 'a "b".txt', "a&b.txt", "a<b>.txt", "ä ö.txt", "50%.txt"]
    store.files |= {f"models/b/{name}": name.encode() for name in names}
    mirror = mirror_of(f"{store.url}/models", only=["b"])
    mirror.fetch()
    assert set(content(mirror.folder)) >= {f"b/{name}" for name in names}

"""URLs of repositories: what is served, what is refused, and that no sentence has a credential in it."""

import pytest

from mnserve.errors import SettingsError
from mnserve.object_store.redaction import Redactor
from mnserve.object_store.url import is_url, parse_url
from mnserve.settings import ServeSettings


@pytest.mark.parametrize(
    ("text", "scheme", "path"),
    [
        ("s3://bucket/models/", "s3", "bucket/models"),
        ("S3://bucket", "s3", "bucket"),
        ("gcs://bucket/a/b", "gs", "bucket/a/b"),
        ("hf://org/nets@v1/served", "hf", "org/nets@v1/served"),
        ("abfs://box@account.dfs.core.windows.net/models", "abfs", "box@account.dfs.core.windows.net/models"),
        ("http://host:81/a%20b/", "http", "http://host:81/a%20b"),
        ("https://joe:pw@host/models?token=t", "https", "https://host/models"),
        ("file:///srv/my%20models", "file", "/srv/my models"),
        ("memory://models", "memory", "/models"),
    ],
)
def test_urls_are_read(text: str, scheme: str, path: str) -> None:
    assert is_url(text)
    url = parse_url(text)
    assert (url.scheme, url.path) == (scheme, path)
    assert "pw" not in url.shown
    assert "pw" not in repr(url)
    assert "token" not in url.shown


@pytest.mark.parametrize("text", ["models", "/srv/models", "../a:b", "a::b", "C:/models"])
def test_folders_are_no_urls(text: str) -> None:
    assert not is_url(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("zip://a.zip::s3://bucket/secretKey", "scheme"),
        ("simplecache::s3://bucket/secretKey", "chain of URLs"),
        ("ftp://host/models?password=secretKey", "it must be one of s3, gs"),
        ("s3://AKID:secretKey@bucket/models", "has credentials in its URL"),
        ("hf://me:secretKey@org/nets/models", "has credentials in its URL"),
        ("s3://bucket/models?X-Amz-Signature=secretKey", "a signed URL is good for one object"),
        ("https://host/models#secretKey", "has a query or a fragment"),
        ("http://host:secretKey/models", "host or port is malformed"),
        ("http://host/a/../b", "'.' or '..'"),
        ("http://host/a/%2e%2e/b", "'.' or '..'"),
        ("s3://bucket/a\nb", "unprintable"),
        ("s3:///models", "names no host or bucket"),
        ("hf://org", "names no repository of the hub"),
        ("file://models", "names no folder"),
    ],
)
def test_other_urls_are_refused_without_their_credentials(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ServeSettings(repository=text)
    assert reason in str(caught.value)
    assert "secretKey" not in str(caught.value)


def test_credentials_are_removed_from_text() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "abc/def+ghi",
        "FSSPEC_HTTP": '{"client_kwargs": {"headers": {"Authorization": "Bearer opensesame"}}}',
        "SSH_AUTH_SOCK": "/run/agent.sock",
        "SHORT_KEY": "on",
        "HOME": "/home/joe",
    }
    redactor = Redactor(["p@ss word"], environment)
    for text in ("abc/def+ghi", "abc%2Fdef%2Bghi", "opensesame", "p%40ss%20word", "p%40ss+word", "p@ss word"):
        assert redactor.text(f"before {text} after") == "before *** after"
    assert redactor.text("GET https://joe:pw@host/x?X-Amz-Signature=0123&a=b: 403") == "GET https://***@host/x?*** 403"
    assert redactor.text("authorization: Bearer abcdefghij") == "authorization: Bearer ***"
    assert redactor.text("X-Amz-Credential=AKID/2026 on") == "X-Amz-Credential=*** on"
    assert redactor.text("in /home/joe, on /run/agent.sock") == "in /home/joe, on /run/agent.sock"

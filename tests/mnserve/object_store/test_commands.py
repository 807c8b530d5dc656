"""Commands on a repository in a store: each takes the URL, and none shows its credentials."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from file_store import FileStore
from PIL import Image

from mnserve.commands import cli
from mnserve.object_store.log_filter import LogFilter
from mnserve.object_store.redaction import Redactor

SECRETS = ("sesame", "tokenOfUrl", "keyOfEnvironment")


@pytest.fixture
def url(
    store: FileStore, tmp_path: Path, write_colour_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> str:
    write_colour_model(tmp_path / "uploaded", "colours")
    write_colour_model(tmp_path / "uploaded", "others")
    store.put(tmp_path / "uploaded")
    store.user, store.token = ("joe", "sesame"), "tokenOfUrl"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "keyOfEnvironment")
    return f"{store.url.replace('://', '://joe:sesame@')}/models?token=tokenOfUrl"


def test_check(url: str, store: FileStore, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", url, "--json"]) == 0
    told = capfd.readouterr()
    report = json.loads(told.out)
    assert [model["name"] for model in report["models"]] == ["colours", "others"]
    assert report["repository"] == f"{store.url}/models"
    assert (tmp_path / "home" / "mnserve" / "models" / "repositories").is_dir()
    store.files["models/others/config.pbtxt"] = b"nonsense"
    assert cli.main(["check", url]) == 1
    told_of_fault = capfd.readouterr()
    assert "does not parse" in told_of_fault.out
    for text in (*told, *told_of_fault):
        assert not [secret for secret in SECRETS if secret in text]


def test_predict_and_bench_copy_their_model_alone(
    url: str, store: FileStore, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "image.png")
    assert cli.main(["predict", url.replace("/models?", "/models/colours?"), str(tmp_path / "image.png")]) == 0
    assert "red" in capfd.readouterr().out
    assert cli.main(["bench", url, "colours", "--seconds", "0.05", "--rounds", "2", "--json", "-"]) == 0
    assert '"colours"' in capfd.readouterr().out
    assert not [path for path in store.begun if "others" in path]


def test_headers_of_the_environment_are_sent(
    url: str, store: FileStore, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import fsspec.config

    header = f"Basic {base64.b64encode(b'joe:sesame').decode()}"
    monkeypatch.setitem(fsspec.config.conf, "http", {"headers": {"Authorization": header}})
    assert cli.main(["check", url.replace("joe:sesame@", "")]) == 0
    assert header not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("check", "{url}", "--store-patience", "0"), 1, "cannot give the model folders now (HTTP 500)"),
        (("bench", "{url}", "colours", "--store-patience", "0"), 1, "cannot give the model folders now (HTTP 500)"),
        (("tune", "{url}", "colours", "--latency-ms", "5"), 2, "object stores are only read; give --dry-run"),
        (("serve", "zip::{url}"), 2, "is a chain of URLs"),
        (("serve", "s3://joe:sesame@bucket/models?key=tokenOfUrl"), 2, "has credentials in its URL"),
        (("serve", "{url}", "--store-timeout", "0"), 2, "--store-timeout is 0.0; it must be from 0.1"),
        (("serve", "{url}", "--model-cache-bytes", "-1"), 2, "--model-cache-bytes is -1"),
    ],
)
def test_faults_are_one_sentence_without_credentials(
    words: tuple[str, ...], code: int, sentence: str, url: str, store: FileStore, capfd: pytest.CaptureFixture[str]
) -> None:
    store.status = 500
    assert cli.main([word.format(url=url) for word in words]) == code
    told = capfd.readouterr()
    assert sentence in told.err
    assert not [secret for secret in SECRETS if secret in told.out + told.err]


def test_what_libraries_log_has_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    log_filter = LogFilter(Redactor(["sesame"], {}))
    try:
        try:
            raise OSError("https://host/x?X-Amz-Signature=tokenOfUrl")
        except OSError:
            logging.getLogger("aiobotocore").exception("retrying %s", "https://joe:sesame@host/a?b=tokenOfUrl")
    finally:
        log_filter.close()
        logging.getLogger().removeHandler(handler)
    told = capsys.readouterr().err
    assert "retrying https://***@host/a?***" in told
    assert "OSError: https://host/x?***" in told
    assert not [secret for secret in SECRETS if secret in told]

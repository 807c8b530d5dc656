"""The client and the commands at a server with TLS and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mnserve.access.settings import SecuritySettings
from mnserve.bench.server_process import _plain_environment
from mnserve.bench.settings import BenchSettings
from mnserve.client.blocking import Client
from mnserve.client.channels import open_channel, parse_address, token_metadata
from mnserve.client.settings import ConnectionSettings
from mnserve.commands import cli
from mnserve.errors import (
    CredentialsError,
    MnServeError,
    RequestRefusedError,
    ServerUnreachableError,
    SettingsError,
)

Serve = Callable[..., Awaitable[str]]
WriteTokens = Callable[[str], str]
INFER, OTHER = "infer-0123456789", "other-0123456789"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNSERVE_TOKEN", raising=False)


@pytest.fixture
async def url(serve: Serve, certificates: Any, token_file: WriteTokens, colour_model: Callable[..., Path]) -> str:
    """A server that wants a certificate and a token."""
    colour_model("colours")
    certificate, key = certificates.issue()
    security = SecuritySettings(
        tls_certificate=certificate, tls_key=key, tls_client_ca=certificates.ca, token_file=token_file(INFER)
    )
    return await serve(security=security)


def connection(certificates: Any, token: str | None = INFER, **fields: Any) -> ConnectionSettings:
    certificate, key = certificates.issue("client")
    given = {"tls_ca": certificates.ca, "tls_certificate": certificate, "tls_key": key, **fields}
    if token is not None:
        path = certificates.folder / "token"
        path.touch(0o600)
        path.write_text(f"{token}\n")
        given["token_file"] = str(path)
    return ConnectionSettings(**given)


async def ask(url: str, given: ConnectionSettings | None) -> list[str]:
    def names() -> list[str]:
        with Client(url, 20, given) as client:
            client.server_metadata()
            return client.model_names()

    return await asyncio.to_thread(names)


async def test_a_certificate_and_a_token_open_the_connection(
    url: str, certificates: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert url.startswith("grpcs://127.0.0.1:")
    assert await ask(url, connection(certificates)) == ["colours"]
    assert await ask(url.removeprefix("grpcs://"), connection(certificates)) == ["colours"]
    monkeypatch.setenv("MNSERVE_TOKEN", f" {INFER}\n")
    assert await ask(url, connection(certificates, token=None)) == ["colours"]
    with pytest.raises(RequestRefusedError):  # the file goes first
        await ask(url, connection(certificates, token=OTHER))


async def test_a_call_without_certificate_or_token_is_refused(
    url: str, certificates: Any, other_certificates: Any
) -> None:
    def refused(error: type[MnServeError], words: str) -> Any:
        return pytest.raises(error, match=words)

    with refused(RequestRefusedError, "wants another token: the call has no token.*--token-file FILE or in MNSERVE"):
        await ask(url, connection(certificates, token=None))
    with refused(RequestRefusedError, "wants another token: the token is not one of this server's"):
        await ask(url, connection(certificates, token=OTHER))
    with refused(ServerUnreachableError, "no encrypted connection to .* came about .*--tls-ca"):
        await ask(url, connection(certificates, tls_ca=other_certificates.ca))
    with refused(ServerUnreachableError, "no encrypted connection to .* came about .*--tls-ca"):
        await ask(url, None)  # gRPC's own list of authorities
    with pytest.raises(ServerUnreachableError):
        await ask(url, ConnectionSettings(tls_ca=certificates.ca))
    with pytest.raises(ServerUnreachableError):
        await ask(url.removeprefix("grpcs://"), None)


async def test_predict_and_bench_reach_a_server_with_tls_and_a_token(
    url: str, certificates: Any, tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = connection(certificates)
    words = ["--url", url, "--token-file", str(given.token_file), "--tls-ca", str(given.tls_ca)]
    words += ["--tls-certificate", str(given.tls_certificate), "--tls-key", str(given.tls_key)]
    image = tmp_path / "red.png"
    Image.fromarray(np.array([[[255, 0, 0]] * 6] * 4, np.uint8)).save(image)
    assert await asyncio.to_thread(cli.main, ["predict", "colours", str(image), *words]) == 0
    assert "red" in capsys.readouterr().out
    bench = ["bench", str(repository), "colours", "--grpc", "--seconds", "0.01", "--rounds", "1", *words]
    assert await asyncio.to_thread(cli.main, bench) == 0
    assert await asyncio.to_thread(cli.main, ["predict", "colours", str(image), "--url", url]) == 1
    assert "no encrypted connection" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "encrypted"),
    [("h:1", False), ("grpc://h:1", False), ("grpcs://h:1", True), ("unix:/run/mn.sock", False)],
)
def test_the_scheme_or_a_file_of_tls_asks_for_encryption(text: str, encrypted: bool) -> None:
    address = parse_address(text)
    assert address.is_encrypted(ConnectionSettings()) is encrypted
    for given in (ConnectionSettings(tls_ca="a"), ConnectionSettings(tls_certificate="c", tls_key="k")):
        if text.startswith("grpc://"):
            with pytest.raises(SettingsError, match="url grpc://h:1 is not encrypted, but options of TLS are given"):
                address.is_encrypted(given)
        else:
            assert address.is_encrypted(given)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("gpu-box:1", False),
        ("grpcs://gpu-box:1", True),
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("unix:/run/mn.sock", True),
        ("localhost.example.org:1", False),
    ],
)
def test_a_token_does_not_cross_a_network_as_plain_text(text: str, sent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNSERVE_TOKEN", INFER)
    address, expected = parse_address(text), (("authorization", f"Bearer {INFER}"),)
    assert token_metadata(address, ConnectionSettings(insecure_tokens=True)) == expected
    if sent:
        assert token_metadata(address, ConnectionSettings()) == expected
    else:
        with pytest.raises(SettingsError, match=r"the token would go to .* as plain text; write grpcs://") as caught:
            token_metadata(address, ConnectionSettings())
        assert INFER not in str(caught.value)


def test_a_client_without_connection_settings_sends_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNSERVE_TOKEN", "no token at all")
    with Client("gpu-box:1") as client:
        assert client._metadata == ()


def test_a_variable_that_is_no_token_is_refused(token_file: WriteTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CredentialsError, match="has 2 tokens, and a client shows one"):
        ConnectionSettings(token_file=token_file(f"{INFER}\n{OTHER}\n")).token()
    monkeypatch.setenv("MNSERVE_TOKEN", "short")
    with pytest.raises(SettingsError, match="the variable MNSERVE_TOKEN: a token has 5 characters"):
        ConnectionSettings().token()
    monkeypatch.setenv("MNSERVE_TOKEN", "")
    assert ConnectionSettings().token() is None


def test_files_that_do_not_belong_together_are_refused(certificates: Any, other_certificates: Any) -> None:
    with pytest.raises(SettingsError, match="--tls-certificate is given without --tls-key"):
        ConnectionSettings(tls_certificate="c")
    certificate, key = certificates.issue("client")[0], other_certificates.issue("client")[1]
    with pytest.raises(CredentialsError, match="is not the key of --tls-certificate"):
        open_channel(parse_address("h:1"), ConnectionSettings(tls_certificate=certificate, tls_key=key))
    with pytest.raises(CredentialsError, match=r"--tls-ca .* has no certificate"):
        open_channel(parse_address("h:1"), ConnectionSettings(tls_ca=key))


def test_a_server_of_bench_itself_has_neither_tls_nor_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNSERVE_TOKEN_FILE", "tokens")
    monkeypatch.setenv("MNSERVE_TLS_CERTIFICATE", "certificate")
    for name in ("CONFIG", "WARM_UP", "MAX_QUEUE_SIZE", "LOAD_MODEL"):
        monkeypatch.setenv(f"MNSERVE_{name}", "x")
    monkeypatch.setenv("OTHER_MNSERVE_", "kept")
    environment = _plain_environment()
    assert [name for name in environment if name.startswith("MNSERVE_")] == []
    assert environment["OTHER_MNSERVE_"] == "kept"
    with pytest.raises(SettingsError, match="TLS and tokens are for the server at --url"):
        BenchSettings(repository="r", model="m", grpc=True, connection=ConnectionSettings(token_file="t"))

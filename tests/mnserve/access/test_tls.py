"""TLS of a real server: who gets in, and what happens when certificates are replaced."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from tritonclient.utils import InferenceServerException

from mnserve.access.settings import SecuritySettings
from mnserve.access.tls import server_credentials
from mnserve.errors import CredentialsError, SettingsError, StartError

Serve = Callable[..., Awaitable[str]]
PLAIN: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def model(double_model: Callable[..., Path]) -> None:
    double_model("m")


async def serve_tls(serve: Serve, issued: tuple[str, str], client_ca: str | None = None) -> str:
    security = SecuritySettings(tls_certificate=issued[0], tls_key=issued[1], tls_client_ca=client_ca)
    address = await serve(security=security)
    assert address.startswith("grpcs://")
    return address.removeprefix("grpcs://")


def encrypted(ca: str, identity: tuple[str, str] | None = None) -> dict[str, Any]:
    certificate, key = identity or (None, None)
    return {"ssl": True, "root_certificates": ca, "certificate_chain": certificate, "private_key": key}


async def gets_in(address: str, fields: dict[str, Any]) -> bool:
    """Returns True if a client of Triton with these files reaches the model."""

    def ask() -> bool:
        with triton.InferenceServerClient(address, **fields) as client:
            try:
                return bool(client.is_model_ready("m", client_timeout=20))
            except InferenceServerException as error:
                if error.status() != "StatusCode.UNAVAILABLE":
                    raise
                return False

    return await asyncio.to_thread(ask)


async def test_a_client_that_trusts_the_authority_gets_in(
    serve: Serve, certificates: Any, other_certificates: Any
) -> None:
    address = await serve_tls(serve, certificates.issue())
    assert await gets_in(address, encrypted(certificates.ca))
    assert not await gets_in(address, encrypted(other_certificates.ca))
    assert not await gets_in(address, PLAIN)


async def test_with_an_authority_for_clients_each_needs_a_certificate_of_it(
    serve: Serve, certificates: Any, other_certificates: Any
) -> None:
    address = await serve_tls(serve, certificates.issue(), certificates.ca)
    expired = certificates.issue("expired", not_after=datetime.now(UTC) - timedelta(days=1))
    assert await gets_in(address, encrypted(certificates.ca, certificates.issue("client")))
    assert not await gets_in(address, encrypted(certificates.ca))
    assert not await gets_in(address, encrypted(certificates.ca, other_certificates.issue("client")))
    assert not await gets_in(address, encrypted(certificates.ca, expired))


async def test_a_new_certificate_is_shown_to_the_next_connection_while_open_ones_go_on(
    serve: Serve, certificates: Any, other_certificates: Any
) -> None:
    issued = certificates.issue()
    address = await serve_tls(serve, issued)
    gc.collect()  # nothing of the set-up is needed only as long as somebody here holds it
    with triton.InferenceServerClient(address, **encrypted(certificates.ca)) as open_one:
        assert await asyncio.to_thread(open_one.is_server_live)
        assert not await gets_in(address, encrypted(other_certificates.ca))
        for new, old in zip(other_certificates.issue(), issued, strict=True):
            os.replace(new, old)
        assert await gets_in(address, encrypted(other_certificates.ca))
        assert not await gets_in(address, encrypted(certificates.ca))
        assert await asyncio.to_thread(open_one.is_server_live)


async def test_files_that_do_not_work_leave_the_certificate_as_it_was(
    serve: Serve, certificates: Any, other_certificates: Any, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = certificates.issue()
    address = await serve_tls(serve, (certificate, key))
    Path(certificate).write_text("garbage")
    assert await gets_in(address, encrypted(certificates.ca))
    assert await gets_in(address, encrypted(certificates.ca))
    logs_here = "MNSERVE_FRONT_ENDS" not in os.environ
    if logs_here:
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 1
        assert f"--tls-certificate {certificate}" in warnings[0]
        assert "what was read before stays in force" in warnings[0]
    new_certificate, new_key = other_certificates.issue()
    os.replace(new_certificate, certificate)  # its key is not there yet
    assert await gets_in(address, encrypted(certificates.ca))
    assert "is not the key of" in caplog.text or not logs_here
    os.replace(new_key, key)
    assert await gets_in(address, encrypted(other_certificates.ca))


async def test_a_new_authority_for_clients_counts_without_a_restart(
    serve: Serve, certificates: Any, other_certificates: Any
) -> None:
    clients = Path(certificates.folder, "clients.pem")
    clients.write_bytes(Path(certificates.ca).read_bytes())
    address = await serve_tls(serve, certificates.issue(), str(clients))
    known, stranger = certificates.issue("known"), other_certificates.issue("stranger")
    assert await gets_in(address, encrypted(certificates.ca, known))
    assert not await gets_in(address, encrypted(certificates.ca, stranger))
    os.replace(other_certificates.ca, clients)
    assert await gets_in(address, encrypted(certificates.ca, stranger))
    assert not await gets_in(address, encrypted(certificates.ca, known))


def with_password(key: str) -> bytes:
    loaded = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


@pytest.mark.parametrize(
    ("broken", "content", "words"),
    [
        ("tls_certificate", None, r"--tls-certificate .* cannot be read: No such file"),
        ("tls_key", None, r"--tls-key .* cannot be read: No such file"),
        ("tls_client_ca", None, r"--tls-client-ca .* cannot be read: No such file"),
        ("tls_key", "folder", r"--tls-key .* is a folder, a device or a pipe"),
        ("tls_key", "password", r"--tls-key .* has a password; write it without one"),
        ("tls_key", "another", r"--tls-key .* is not the key of --tls-certificate"),
        ("tls_certificate", b"garbage", r"--tls-certificate .* are not a certificate and a private key in PEM form"),
        ("tls_key", b"", r"--tls-key .* are not a certificate and a private key in PEM form"),
        ("tls_client_ca", b"garbage", r"--tls-client-ca .* has no certificate in PEM form"),
        ("tls_certificate", b"x" * (2**20 + 1), r"has 1048577 bytes, more than the limit of 1048576"),
    ],
)
def test_files_that_cannot_be_used_are_named(certificates: Any, broken: str, content: Any, words: str) -> None:
    certificate, key = certificates.issue()
    files = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": certificates.ca}
    path = Path(files[broken])
    if content == "password":
        path.write_bytes(with_password(key))
    elif content == "another":
        path.write_bytes(Path(certificates.issue("another")[1]).read_bytes())
    elif content == "folder":
        files[broken] = str(certificates.folder)
    elif content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(CredentialsError, match=words):
        server_credentials(SecuritySettings(**files))


def test_a_pipe_is_not_waited_for(certificates: Any) -> None:
    certificate, _ = certificates.issue()
    pipe = certificates.folder / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CredentialsError, match="is a folder, a device or a pipe"):
        server_credentials(SecuritySettings(tls_certificate=certificate, tls_key=str(pipe)))


def test_remarks_around_an_authority_may_be_in_any_language(certificates: Any) -> None:
    certificate, key = certificates.issue()
    ca = Path(certificates.ca)
    ca.write_bytes("# Zürich\n".encode() + ca.read_bytes())
    security = SecuritySettings(tls_certificate=certificate, tls_key=key, tls_client_ca=str(ca))
    assert server_credentials(security) is not None


def test_a_key_that_others_can_read_is_warned_of(certificates: Any, caplog: pytest.LogCaptureFixture) -> None:
    certificate, key = certificates.issue()
    Path(certificate).chmod(0o644)
    server_credentials(SecuritySettings(tls_certificate=certificate, tls_key=key))
    assert caplog.records == []
    Path(key).chmod(0o640)
    server_credentials(SecuritySettings(tls_certificate=certificate, tls_key=key))
    assert [record.getMessage() for record in caplog.records] == [
        f"--tls-key {key} can be used by others (mode 0640); `chmod 600` it"
    ]


async def test_a_key_type_unknown_to_gRPC_stops_the_start(serve: Serve, tmp_path: Path) -> None:
    key, name, now = Ed448PrivateKey.generate(), x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    paths = tmp_path / "unknown.pem", tmp_path / "unknown.key"
    paths[0].write_bytes(builder.sign(key, None).public_bytes(serialization.Encoding.PEM))
    paths[1].touch(0o600)
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with pytest.raises(StartError, match="choose another --grpc-port, or a certificate whose key is RSA or ECDSA"):
        await serve_tls(serve, (str(paths[0]), str(paths[1])))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tls_certificate": "c"}, "--tls-certificate is given without --tls-key"),
        ({"tls_key": "k"}, "--tls-key is given without --tls-certificate"),
        ({"tls_client_ca": "a"}, "--tls-client-ca is for TLS"),
    ],
)
def test_tls_options_without_their_companions_are_refused(fields: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        SecuritySettings(**fields)  # type: ignore[arg-type]

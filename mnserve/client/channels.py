"""Channels to servers, plain or encrypted, and the metadata of their calls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from mnserve.access.addresses import is_loopback
from mnserve.access.certificates import read_authorities, read_identity
from mnserve.client.settings import ConnectionSettings
from mnserve.errors import SettingsError

DEFAULT_PORT: Final = 8001
_ENCRYPTED: Final = "grpcs://"
_PLAIN: Final = "grpc://"
_EVERY_INTERFACE: Final = ("0.0.0.0", "[::]")
"""Addresses to listen on; connections to them stay on this machine."""
_UNLIMITED: Final = -1
"""The server states and enforces its own limit."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Address of a server.

    Attributes:
        target: ``HOST:PORT``, or the path of a Unix socket (``unix:…``).
        scheme: ``grpc://``, ``grpcs://`` or empty.
    """

    target: str
    scheme: str

    @property
    def is_local(self) -> bool:
        """True where messages to the server stay on this machine."""
        host = self.target.rpartition(":")[0]
        return self.target.startswith("unix:") or is_loopback(host) or host in _EVERY_INTERFACE

    def is_encrypted(self, connection: ConnectionSettings) -> bool:
        """Returns True if connections use TLS.

        Raises:
            SettingsError: The scheme excludes TLS, and options ask for it.
        """
        if self.scheme == _PLAIN and connection.asks_for_tls:
            raise SettingsError(
                f"url {self.scheme}{self.target} is not encrypted, but options of TLS are given; write "
                f"{_ENCRYPTED}{self.target}, or leave them out"
            )
        return self.scheme == _ENCRYPTED or connection.asks_for_tls


def parse_address(url: str) -> Address:
    """Parses a URL.

    Raises:
        SettingsError: The URL is not the address of a gRPC server.
    """
    scheme = next((prefix for prefix in (_ENCRYPTED, _PLAIN) if url.startswith(prefix)), "")
    target = url.removeprefix(scheme).rstrip("/")
    if target.startswith("unix:"):
        return Address(target=target, scheme=scheme)
    match = re.fullmatch(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/@]+)(?::(?P<port>\d{1,5}))?", target)
    if match is None or not 1 <= int(match["port"] or DEFAULT_PORT) <= 65535:
        raise SettingsError(
            f"url {url!r} is not the address of a gRPC server; write HOST:PORT such as "
            f"127.0.0.1:{DEFAULT_PORT}, without http:// and without a path"
        )
    return Address(target=target if match["port"] else f"{target}:{DEFAULT_PORT}", scheme=scheme)


def open_channel(address: Address, connection: ConnectionSettings) -> grpc.Channel:
    """Opens a channel, which connects with the first call.

    To other machines it goes through the proxy that ``grpc_proxy``, ``https_proxy`` or ``http_proxy`` name in the
    environment, unless ``no_grpc_proxy`` or ``no_proxy`` exempt the host.

    Raises:
        CredentialsError: A file of the connection cannot be used.
        SettingsError: The address excludes TLS, and options ask for it.
    """
    options = [("grpc.max_receive_message_length", _UNLIMITED), ("grpc.max_send_message_length", _UNLIMITED)]
    if address.is_local:  # a proxy would look for a server on its own machine
        options.append(("grpc.enable_http_proxy", 0))
    if not address.is_encrypted(connection):
        return grpc.insecure_channel(address.target, options=options)
    authorities = None if connection.tls_ca is None else read_authorities(Path(connection.tls_ca), "--tls-ca")
    key = certificate = None
    if connection.tls_certificate is not None and connection.tls_key is not None:
        key, certificate = read_identity(Path(connection.tls_certificate), Path(connection.tls_key))
    return grpc.secure_channel(
        address.target, grpc.ssl_channel_credentials(authorities, key, certificate), options=options
    )


def token_metadata(address: Address, connection: ConnectionSettings) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of calls to an address: the token, if there is one.

    Raises:
        CredentialsError: The file of the token cannot be used.
        SettingsError: The token would cross a network as plain text.
    """
    token = connection.token()
    if token is None:
        return ()
    if not (address.is_encrypted(connection) or address.is_local or connection.insecure_tokens):
        raise SettingsError(
            f"the token would go to {address.target} as plain text; write {_ENCRYPTED}{address.target} or give "
            "--tls-ca, or --insecure-tokens where something else encrypts"
        )
    return (("authorization", f"Bearer {token}"),)

"""TLS of the server, with certificates that may be replaced while the server runs."""

from __future__ import annotations

import logging

import grpc

from mnserve.access.certificates import read_authorities, read_identity
from mnserve.access.identity_files import IdentityFiles
from mnserve.access.settings import SecuritySettings
from mnserve.access.watched_file import WatchedFiles
from mnserve.errors import StartError

_log = logging.getLogger(__name__)


def server_credentials(security: SecuritySettings) -> grpc.ServerCredentials | None:
    """Returns the credentials of a port; None where connections are plain.

    The files are checked for changes before every handshake, so the next connection uses their current content.

    Raises:
        CredentialsError: A file cannot be used.
    """
    if (files := IdentityFiles.of(security)) is None:
        return None

    def read() -> grpc.ServerCertificateConfiguration:
        identity = read_identity(files.certificate, files.key)
        authorities = None if files.clients is None else read_authorities(files.clients, "--tls-client-ca")
        return grpc.ssl_server_certificate_configuration([identity], authorities)

    watched = WatchedFiles(files.all, read)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Returns new certificates, or None where they are unchanged. gRPC calls this in threads of its own."""
        try:
            return watched.content if watched.refresh() else None
        except Exception:  # noqa: BLE001 (gRPC would refuse the connection)
            _log.exception("looking for new certificates failed; the old ones stay in force")
            return None

    return grpc.dynamic_ssl_server_credentials(
        watched.content,
        fetch,  # type: ignore[arg-type]  # the stubs lack None
        require_client_authentication=files.clients is not None,
    )


def add_port(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Makes a server listen on an address, and returns the port that was taken.

    Raises:
        StartError: The server cannot listen there.
    """
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:  # gRPC has the same message for a port in use and for an unsupported kind of key
        keys = "" if credentials is None else ", or a certificate whose key is RSA or ECDSA"
        raise StartError(f"cannot listen on {address}: {error}; choose another --grpc-port{keys}") from error

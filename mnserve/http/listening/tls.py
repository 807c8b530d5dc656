"""TLS of the HTTP port, with the certificates of the gRPC port, which may be replaced while the server runs."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from mnserve.access.certificates import read_authorities, read_identity
from mnserve.access.settings import SecuritySettings
from mnserve.access.watched_file import WatchedFiles

_log = logging.getLogger(__name__)


def server_context(security: SecuritySettings) -> ssl.SSLContext | None:
    """Returns the TLS of a port; None where connections are plain.

    The files are checked for changes at every handshake, so the next connection uses their current content.

    Raises:
        CredentialsError: A file cannot be used.
    """
    if security.tls_certificate is None or security.tls_key is None:
        return None
    certificate, key = Path(security.tls_certificate), Path(security.tls_key)
    clients = None if security.tls_client_ca is None else Path(security.tls_client_ca)

    def read() -> ssl.SSLContext:
        read_identity(certificate, key)  # whose messages name the fault
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password="none")
        if clients is not None:
            authorities = read_authorities(clients, "--tls-client-ca")
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    files = WatchedFiles([certificate, key, *([] if clients is None else [clients])], read)
    first = files.content

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        try:
            files.refresh()
        except Exception:  # noqa: BLE001 (OpenSSL would end the handshake)
            _log.exception("looking for new certificates failed; the old ones stay in force")
        if files.content is not first:
            connection.context = files.content

    first.sni_callback = choose
    return first

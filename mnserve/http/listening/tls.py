"""TLS of the HTTP port, with the certificates of the gRPC port, which may be replaced while the server runs."""

from __future__ import annotations

import logging
import ssl

from mnserve.access.certificates import read_authorities, read_identity
from mnserve.access.identity_files import IdentityFiles
from mnserve.access.settings import SecuritySettings
from mnserve.access.watched_file import WatchedFiles

_log = logging.getLogger(__name__)


def server_context(security: SecuritySettings) -> ssl.SSLContext | None:
    """Returns the TLS of a port; None where connections are plain.

    The files are checked for changes at every handshake, so the next connection uses their current content.

    Raises:
        CredentialsError: A file cannot be used.
    """
    if (files := IdentityFiles.of(security)) is None:
        return None

    def read() -> ssl.SSLContext:
        read_identity(files.certificate, files.key)  # whose messages name the fault
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key, password="none")
        if files.clients is not None:
            authorities = read_authorities(files.clients, "--tls-client-ca")
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    watched = WatchedFiles(files.all, read)
    first = watched.content

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        try:
            watched.refresh()
        except Exception:  # noqa: BLE001 (OpenSSL would end the handshake)
            _log.exception("looking for new certificates failed; the old ones stay in force")
        if watched.content is not first:
            connection.context = watched.content

    first.sni_callback = choose
    return first

"""TLS of the HTTP port, with the certificates of the gRPC port, which may be replaced while the server runs."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from mnserve.access.certificates import read_authorities, read_identity
from mnserve.access.identity_files import IdentityFiles
from mnserve.access.settings import SecuritySettings
from mnserve.access.watched_file import WatchedFiles

_log = logging.getLogger(__name__)


def server_context(security: SecuritySettings) -> Callable[[], ssl.SSLContext] | None:
    """Returns what gives the TLS of the next connection; None where connections are plain.

    The files are checked for changes each time. Their new content comes in a context of its own, so that no session of
    an old one is resumed: its client may have lost its right.

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

    def current() -> ssl.SSLContext:
        try:
            watched.refresh()
        except Exception:  # noqa: BLE001 (no reason to refuse connections)
            _log.exception("looking for new certificates failed; the old ones stay in force")
        return watched.content

    return current

"""Files with which a server shows who it is, and knows who calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mnserve.access.settings import SecuritySettings


@dataclass(frozen=True, kw_only=True)
class IdentityFiles:
    """Files of TLS.

    Attributes:
        certificate: Chain of the server's certificate.
        key: Its private key.
        clients: Authorities of the certificates that callers need; None where they need none.
    """

    certificate: Path
    key: Path
    clients: Path | None

    @classmethod
    def of(cls, security: SecuritySettings) -> IdentityFiles | None:
        """Returns the files that settings name; None where connections are plain."""
        if security.tls_certificate is None or security.tls_key is None:
            return None
        clients = None if security.tls_client_ca is None else Path(security.tls_client_ca)
        return cls(certificate=Path(security.tls_certificate), key=Path(security.tls_key), clients=clients)

    @property
    def all(self) -> list[Path]:
        """All files."""
        return [self.certificate, self.key, *([] if self.clients is None else [self.clients])]

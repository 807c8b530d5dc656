"""Settings of TLS and bearer tokens."""

from __future__ import annotations

from dataclasses import dataclass

from mnserve.access.certificates import check_both_given
from mnserve.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """TLS and bearer tokens.

    Raises:
        SettingsError: An option is given without the one that it needs.
    """

    tls_certificate: str | None = None
    """PEM file with the certificate of the server, then those between it and its authority; read again on changes."""
    tls_key: str | None = None
    """PEM file with its private key, without a password."""
    tls_client_ca: str | None = None
    """PEM file with certificate authorities; callers must have a certificate from one of them (mutual TLS)."""
    token_file: str | None = None
    """File with a bearer token a line, each followed by `infer` (default) or `control`; read again on changes."""
    insecure_tokens: bool = False
    """Take tokens without TLS from other machines, such as a proxy that ends TLS."""

    def __post_init__(self) -> None:
        check_both_given(self.tls_certificate, self.tls_key)
        if self.tls_client_ca is not None and not self.encrypted:
            raise SettingsError("--tls-client-ca is for TLS; add --tls-certificate and --tls-key")

    @property
    def encrypted(self) -> bool:
        """True where connections are encrypted."""
        return self.tls_certificate is not None

    def check_host(self, host: str, *, local: bool) -> None:
        """Checks that tokens do not cross a network as plain text.

        Args:
            host: Address that the server listens on.
            local: Only this machine can connect to it.

        Raises:
            SettingsError: Tokens would cross a network as plain text.
        """
        if self.token_file is not None and not (self.encrypted or local or self.insecure_tokens):
            raise SettingsError(
                f"--token-file without TLS on --host {host}: tokens would cross the network as plain text; add "
                "--tls-certificate and --tls-key, or --insecure-tokens where something else encrypts"
            )

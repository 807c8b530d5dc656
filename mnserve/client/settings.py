"""Settings of a client's connection: TLS and a bearer token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mnserve.access.certificates import check_both_given
from mnserve.access.tokens import read_tokens, token_fault
from mnserve.errors import CredentialsError, SettingsError

TOKEN_VARIABLE: Final = "MNSERVE_TOKEN"


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """TLS and a bearer token for the server at --url.

    Raises:
        SettingsError: An option is given without the one that it needs.
    """

    tls_ca: str | None = None
    """PEM file with certificate authorities that the server's certificate may come from; without it gRPC's own list."""
    tls_certificate: str | None = None
    """PEM file with a certificate of this client, for servers that want one."""
    tls_key: str | None = None
    """PEM file with its private key, without a password."""
    token_file: str | None = None
    """File with the bearer token; without it the variable MNSERVE_TOKEN counts."""
    insecure_tokens: bool = False
    """Send the token to another machine without TLS."""

    def __post_init__(self) -> None:
        check_both_given(self.tls_certificate, self.tls_key)

    @property
    def asks_for_tls(self) -> bool:
        """True where an option of TLS is given."""
        return self.tls_ca is not None or self.tls_certificate is not None

    def token(self) -> str | None:
        """Returns the token to send, if there is one.

        Raises:
            CredentialsError: The file cannot be read, or does not have exactly one token.
            SettingsError: The value of the variable is no token.
        """
        if self.token_file is not None:
            tokens = read_tokens(Path(self.token_file))
            if len(tokens) > 1:
                raise CredentialsError(
                    f"--token-file {self.token_file} has {len(tokens)} tokens, and a client shows one; give a file "
                    "with that alone"
                )
            return next(iter(tokens))
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        fault = token_fault(token) if token else ""
        if fault:
            raise SettingsError(f"the variable {TOKEN_VARIABLE}: {fault}")
        return token or None

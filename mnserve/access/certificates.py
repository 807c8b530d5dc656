"""Certificates and private keys in PEM files, checked before gRPC, whose messages about them say little."""

from __future__ import annotations

import ssl
from pathlib import Path

from mnserve.access.credential_files import read_credentials
from mnserve.errors import CredentialsError, SettingsError


def check_both_given(certificate: str | None, key: str | None) -> None:
    """Checks that certificate and key are given together.

    Raises:
        SettingsError: One of them is missing.
    """
    if (certificate is None) != (key is None):
        names = ("--tls-certificate", "--tls-key")
        given, missing = names if key is None else reversed(names)
        raise SettingsError(f"{given} is given without {missing}; give both")


def read_identity(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """Reads a private key and the chain of certificates that belongs to it.

    Raises:
        CredentialsError: One of the files is damaged or of another kind, or the two do not belong together.
    """
    identity = _read_both(certificate, key, warn=True)
    if b"ENCRYPTED" in identity[0]:
        raise CredentialsError(
            f"--tls-key {key} has a password; write it without one, as `openssl pkey -in FILE -out FILE` does"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="none")  # a password keeps OpenSSL from asking the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CredentialsError(
                f"--tls-key {key} is not the key of --tls-certificate {certificate}; give the two that belong together"
            ) from error
        raise CredentialsError(
            f"--tls-certificate {certificate} and --tls-key {key} are not a certificate and a private key in PEM form "
            f"({_reason(error)}); correct the file"
        ) from error
    except OSError as error:
        raise CredentialsError(
            f"--tls-certificate {certificate} cannot be read: {error.strerror}; try again"
        ) from error
    if _read_both(certificate, key, warn=False) != identity:
        raise CredentialsError(
            f"--tls-certificate {certificate} or --tls-key {key} changed while it was read; try again"
        )
    return identity


def read_authorities(path: Path, option: str) -> bytes:
    """Reads the certificates of trusted authorities.

    Raises:
        CredentialsError: The file cannot be read, or has no certificate.
    """
    content = read_credentials(path, option, secret=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(cadata=content.decode("ascii", "ignore"))  # comments may be in any language
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            f"{option} {path} has no certificate in PEM form ({_reason(error)}); correct the file"
        ) from error
    return content


def _read_both(certificate: Path, key: Path, *, warn: bool) -> tuple[bytes, bytes]:
    return (
        read_credentials(key, "--tls-key", secret=warn),
        read_credentials(certificate, "--tls-certificate", secret=False),
    )


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()

"""Removal of credentials from text: what libraries say about a request may have its URL and headers in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from mnserve.text.names import printable, shortened_within

_HIDDEN: Final = "***"
_MIN_LENGTH: Final = 6
"""Characters of the shortest value of the environment that is replaced; shorter ones are parts of common words."""
_SECRET_NAMES: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|CONNECTION_STRING|SAS|^FSSPEC_", re.IGNORECASE
)
"""Parts of the names of variables whose values are secret."""
_PATHS: Final = re.compile(r"_(FILE|PATH|SOCK)$|^SSH_AUTH_SOCK$", re.IGNORECASE)
_QUERY: Final = re.compile(r"\?[^\s'\"<>)\]}]+")
_USER_INFO: Final = re.compile(r"(?<=://)[^/\s'\"@]+@")
_HEADER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_PARAMETER: Final = re.compile(
    r"(?i)\b([\w-]*(?:signature|credential|token|secret|password|access-?key)[\w-]*)=[^\s&'\"]+"
)
_MAX_TEXT: Final = 300


class Redactor:
    """Replaces credentials in text.

    Args:
        secrets: Parts of a URL that are credentials.
        environment: Variables whose secret values are replaced, too.
    """

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        found = {form for secret in secrets if secret for form in _forms(secret)}
        for name, value in variables.items():
            if _SECRET_NAMES.search(name) and not _PATHS.search(name):
                found.update(form for secret in _values(value) if len(secret) >= _MIN_LENGTH for form in _forms(secret))
        self._secrets = sorted(found, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Returns the text without credentials, and without the queries of URLs."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        text = _USER_INFO.sub(f"{_HIDDEN}@", text)
        text = _QUERY.sub(f"?{_HIDDEN}", text)
        text = _HEADER.sub(rf"\1 {_HIDDEN}", text)
        return _PARAMETER.sub(rf"\1={_HIDDEN}", text)

    def error(self, error: BaseException) -> str:
        """Describes an error of a library in one short clause without credentials."""
        words = printable(" ".join(self.text(str(error)).split()))
        name = type(error).__name__
        return f"{name}: {shortened_within(words, _MAX_TEXT)}" if words else name


def _forms(secret: str) -> Iterator[str]:
    """Lists how a secret may be written in a URL."""
    yield from (secret, unquote(secret), quote(secret), quote(secret, safe=""), quote_plus(secret))


def _values(text: str) -> Iterator[str]:
    """Lists a value of the environment, and the texts in it where it is JSON."""
    yield text
    if text[:1] in ("{", "["):
        try:
            parsed = json.loads(text)
        except ValueError:
            return
        yield from _leaves(parsed)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield from value.split()[1:]  # the first word of a header names its kind
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)

"""URLs of repositories in object stores, with their credentials apart from what may be shown."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mnserve.errors import SettingsError
from mnserve.object_store.redaction import Redactor
from mnserve.text.names import printable, shortened

_SCHEMES: Final = {
    "s3": "s3",
    "gs": "gs",
    "gcs": "gs",
    "hf": "hf",
    "az": "abfs",
    "abfs": "abfs",
    "http": "http",
    "https": "https",
    "file": "file",
    "memory": "memory",
}
"""Scheme of a URL -> name of its file system in fsspec."""
WEB: Final = ("http", "https")
_NO_QUERY: Final = "a signed URL is good for one object, and a repository has many"


@dataclass(frozen=True, kw_only=True)
class StoreUrl:
    """URL of a repository.

    Attributes:
        scheme: Name of the file system in fsspec.
        path: Path of the repository there, as fsspec has it, without a slash at its end.
        shown: The URL without credentials.
        authorization: Header for name and password of a web address; empty without them.
        parameters: Query of a web address, for every request.
        redactor: Removes the credentials from text.
    """

    scheme: str
    path: str
    shown: str
    authorization: str = field(default="", repr=False)
    parameters: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    redactor: Redactor = field(default_factory=Redactor, repr=False, compare=False)

    @property
    def is_web(self) -> bool:
        """True for a web server, whose pages are the listings."""
        return self.scheme in WEB


def is_url(repository: str) -> bool:
    """Tells if a repository is a URL, and no folder."""
    return "://" in repository


def split_model(text: str) -> tuple[str, str]:
    """Splits the URL of a model folder into the URL of its repository and the name of the model."""
    address, mark, query = text.partition("?")
    repository, _, name = address.rstrip("/").rpartition("/")
    name = unquote(name) if text.partition(":")[0].lower() in (*WEB, "file") else name
    return f"{repository}{mark}{query}", name


def parse_url(text: str) -> StoreUrl:
    """Reads the URL of a repository.

    Raises:
        SettingsError: The URL has a scheme that is not served, or parts that cannot work. The message has no
            credentials.
    """
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if "::" in scheme:
        raise SettingsError(
            "the repository is a chain of URLs (with '::'), which is not followed; give the URL of the folder that "
            "holds the model folders"
        )
    if scheme not in _SCHEMES:
        raise SettingsError(
            f"the repository is a URL with the scheme '{printable(shortened(scheme))}'; it must be one of "
            f"{', '.join(_SCHEMES)}, or a folder"
        )
    kind = _SCHEMES[scheme]
    try:
        parts = urlsplit(f"{'http' if kind not in WEB else kind}://{rest}")
        host = parts.netloc.rpartition("@")[2]
        _ = parts.port
    except ValueError as error:
        raise SettingsError(
            f"the repository is a {scheme} URL that cannot be read: its host or port is malformed"
        ) from error
    user, _, password = (unquote(part) for part in parts.netloc.rpartition("@")[0].partition(":"))
    at_in_name = kind in ("hf", "abfs") and not password  # a revision, or a container of an account
    has_user_info = "@" in parts.netloc and not at_in_name
    shown = f"{scheme}://{parts.netloc if at_in_name else host}{parts.path}".rstrip("/")
    shown = printable(shortened(shown, 300))
    if has_user_info and kind not in WEB:
        raise SettingsError(
            f"the repository {shown} has credentials in its URL; leave them out, and give them by the variables of the "
            "environment that the store's library reads"
        )
    if (parts.query or parts.fragment or "#" in rest) and (kind not in WEB or parts.fragment):
        raise SettingsError(f"the repository {shown} has a query or a fragment; leave it out: {_NO_QUERY}")
    _check_path(rest, shown, kind, parts)
    path = f"{parts.netloc}{parts.path}".rstrip("/")
    if kind in WEB:
        path = f"{kind}://{host}{parts.path}".rstrip("/")
    elif kind in ("file", "memory"):
        path = f"/{path.lstrip('/')}" if kind == "memory" else unquote(parts.path).rstrip("/")
    parameters = tuple(parse_qsl(parts.query, keep_blank_values=True))
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets = [user, password, encoded, parts.query, *(value for _, value in parameters)] if kind in WEB else []
    return StoreUrl(
        scheme=kind,
        path=path,
        shown=shown,
        authorization=f"Basic {encoded}" if has_user_info else "",
        parameters=parameters,
        redactor=Redactor(secrets),
    )


def _check_path(text: str, shown: str, kind: str, parts: SplitResult) -> None:
    netloc, path = parts.netloc, parts.path
    decoded = unquote(path) if kind in (*WEB, "file") else path
    if any(part in (".", "..") for part in decoded.split("/")) or not (decoded.isprintable() and text.isprintable()):
        raise SettingsError(
            f"the repository {shown} has '.' or '..' or unprintable characters in its path; write it out"
        )
    if kind == "file":
        if netloc not in ("", "localhost") or not path.strip("/"):
            raise SettingsError(f"the repository {shown} names no folder; write file:///FOLDER, or the folder alone")
    elif not netloc:
        raise SettingsError(f"the repository {shown} names no host or bucket; write it after ://")
    elif kind == "hf" and not path.strip("/"):
        raise SettingsError(f"the repository {shown} names no repository of the hub; write hf://OWNER/NAME/FOLDER")

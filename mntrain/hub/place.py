"""Places that contents are exchanged with: a repository of the hub, or a folder."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mntrain.errors import ConfigError

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")
_OF_FOLDERS: Final = ("/", ".", "~")


@dataclass(frozen=True, kw_only=True)
class HubRepository:
    """A repository of the hub.

    Args:
        name: ``OWNER/NAME``, or ``NAME`` of the owner of the token.
        revision: branch, tag or commit; None for the main branch.
    """

    name: str
    revision: str | None = None


def read_place(word: str, revision: str | None = None) -> HubRepository | Path:
    """Read where to push to or pull from.

    Args:
        word: ``OWNER/NAME`` on the hub, ``file:///path``, or a path that begins with ``/``, ``.`` or ``~``.
        revision: of a repository of the hub.

    Raises:
        ConfigError: it is neither, or a revision of a folder.
    """
    folder = _folder(word)
    if folder is not None:
        if revision is not None:
            raise ConfigError(f"{word} is a folder, which has no revisions; leave --revision {revision} out.")
        return folder
    if "://" in word:
        host = urlsplit(word).path.strip("/")
        hint = f"; did you mean {host}?" if _REPOSITORY.fullmatch(host) else "."
        raise ConfigError(f"{word!r} is an address; give OWNER/NAME of a repository on the hub{hint}")
    if not _REPOSITORY.fullmatch(word) or ".." in word or "--" in word or word.endswith((".git", ".", "-")):
        raise ConfigError(
            f"{word!r} cannot be a repository on the hub; give OWNER/NAME of letters, digits, '.', '_' and '-', or a "
            "folder as file:///path or ./path."
        )
    return HubRepository(name=word, revision=revision)


def _folder(word: str) -> Path | None:
    if word.startswith("file:"):
        parts = urlsplit(word)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise ConfigError(f"{word!r} is no folder of this machine; write file:///path/to/folder.")
        return Path(unquote(parts.path))
    if word.startswith(_OF_FOLDERS):
        return Path(os.path.expanduser(word))
    return None

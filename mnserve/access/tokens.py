"""Bearer tokens: their file, and the rights of the token that a caller sends.

A file has one token a line, followed by its right: ``infer`` (the default) or ``control``, which includes ``infer``.
A ``#`` at the beginning of a line or after a space starts a comment.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, cast, get_args

from mnserve.access.credential_files import read_credentials
from mnserve.errors import CredentialsError

Right = Literal["infer", "control"]

MIN_CHARACTERS: Final = 16
_MAX_CHARACTERS: Final = 4096
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Token after the word ``Bearer`` (RFC 6750)."""
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")


class Tokens:
    """Looks up the rights of tokens, in a time that does not depend on how much of a token is right.

    Args:
        rights: Token -> right. Only digests of the tokens are kept.
    """

    def __init__(self, rights: Mapping[str, Right]) -> None:
        self._rights = [(token_digest(token), right) for token, right in rights.items()]

    def right(self, token: str) -> Right | None:
        """Returns the right of a token, or None for an unknown one."""
        digest = token_digest(token)
        match: Right | None = None
        for known, right in self._rights:  # every one: stopping at the match would reveal its position
            if hmac.compare_digest(known, digest):
                match = right
        return match


def read_tokens(path: Path) -> dict[str, Right]:
    """Reads the tokens of a file with their rights.

    Raises:
        CredentialsError: The file cannot be read, has no token, or a malformed one. No message contains a token.
    """
    try:
        text = read_credentials(path, "--token-file", secret=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CredentialsError(f"--token-file {path} is not UTF-8 text; write one token a line") from error
    rights: dict[str, Right] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = _COMMENT.sub("", line).split()
        if not words:
            continue
        where = f"--token-file {path}, line {number}"
        token, right = words[0], words[1] if len(words) > 1 else "infer"
        if len(words) > 2 or right not in get_args(Right):
            raise CredentialsError(
                f"{where}: a token is followed by nothing, `infer` or `control`; write TOKEN control"
            )
        fault = token_fault(token)
        if fault:
            raise CredentialsError(f"{where}: {fault}")
        if token in rights:
            raise CredentialsError(f"{where}: the token stands further up already; leave one of the two out")
        rights[token] = cast("Right", right)
    if not rights:
        raise CredentialsError(
            f"--token-file {path} has no token; write one a line, such as `openssl rand -hex 32` makes"
        )
    return rights


def token_fault(token: str) -> str:
    """Describes the fault of a token without the token itself; empty for a valid one."""
    if not _TOKEN.fullmatch(token):
        return "a token has characters other than A-Z a-z 0-9 . _ ~ + / - and = at its end; make another one"
    if not MIN_CHARACTERS <= len(token) <= _MAX_CHARACTERS:
        return f"a token has {len(token)} characters; it must have from {MIN_CHARACTERS} to {_MAX_CHARACTERS}"
    return ""


def token_digest(token: str) -> bytes:
    """Returns what stands for a token where it is kept: of a fixed length, and of no use to anyone who sees it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()

"""The file of tokens, and comparing them."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from mnserve.access import tokens
from mnserve.access.tokens import Tokens, read_tokens
from mnserve.errors import CredentialsError

WriteTokens = Callable[[str], str]
A, B, C = "a" * 16, "b" * 40, "c.~+/-_" * 3 + "=="


def read(path: str) -> dict[str, str]:
    return dict(read_tokens(Path(path)))


def test_tokens_and_rights_are_read_without_comments(token_file: WriteTokens) -> None:
    text = f"\ufeff# who: the shop\n{A}\n\n  {B}  control # the operator\r\n\t#{C} old\n{C} infer\n"
    assert read(token_file(text)) == {A: "infer", B: "control", C: "infer"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no token; write one a line"),
        ("# only a remark\n\n", "has no token; write one a line"),
        (f"{A}\nshort\n", "line 2: a token has 5 characters; it must have from 16 to 4096"),
        (f"{A * 300}\n", "line 1: a token has 4800 characters"),
        (f"{A}#secret\n", "line 1: a token has characters other than"),
        ("schön-und-geheim-und-lang\n", "line 1: a token has characters other than"),
        (f"{A} everything\n", "line 1: a token is followed by nothing, `infer` or `control`"),
        (f"{A} {B}\n", "line 1: a token is followed by nothing, `infer` or `control`"),
        (f"{A} infer control\n", "line 1: a token is followed by nothing"),
        (f"{A}\n{B}\n{A} control\n", "line 3: the token stands further up already"),
    ],
)
def test_messages_about_a_file_of_tokens_contain_no_token(token_file: WriteTokens, text: str, words: str) -> None:
    with pytest.raises(CredentialsError, match=words) as caught:
        read(token_file(text))
    message = str(caught.value).split("tokens", 1)[1]  # behind the name of the file
    for token in (A, B, "short", "geheim", "secret", "everything"):
        assert token not in message
    assert caught.value.__cause__ is None


def test_bytes_that_are_no_text_are_refused(token_file: WriteTokens) -> None:
    path = Path(token_file(""))
    path.write_bytes(b"\xff\xfe" * 20)
    with pytest.raises(CredentialsError, match="is not UTF-8 text"):
        read(str(path))


def test_a_file_that_others_can_read_is_warned_of(token_file: WriteTokens, caplog: pytest.LogCaptureFixture) -> None:
    path = Path(token_file(A))
    read(str(path))
    assert caplog.records == []
    path.chmod(0o604)
    read(str(path))
    assert [record.getMessage() for record in caplog.records] == [
        f"--token-file {path} can be used by others (mode 0604); `chmod 600` it"
    ]


def test_a_token_has_the_right_of_its_line() -> None:
    known = Tokens({A: "infer", B: "control"})
    assert known.right(A) == "infer"
    assert known.right(B) == "control"
    for unknown in ("", A[:-1], A + "a", A.upper(), C, "\udcff", "ö"):
        assert known.right(unknown) is None


@pytest.mark.parametrize("shown", [A, B, C, "nobody's", ""])
def test_every_token_is_compared_whichever_is_shown(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time would tell where it stands; and digests of one length, or it would tell how long others are."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    class Spy:
        @staticmethod
        def compare_digest(known: bytes, given: bytes) -> bool:
            compared.append((known, given))
            return real(known, given)

    monkeypatch.setattr(tokens, "hmac", Spy)
    rights: dict[str, tokens.Right] = {A: "infer", B: "control", C: "infer"}
    assert Tokens(rights).right(shown) == rights.get(shown)
    assert len({known for known, _ in compared}) == len(compared) == 3
    assert len({given for _, given in compared}) == 1
    assert {len(item) for pair in compared for item in pair} == {32}


def test_no_token_is_kept() -> None:
    assert A not in repr(vars(Tokens({A: "infer"})))

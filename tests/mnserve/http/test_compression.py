"""Compressed bodies, within the limit of what they hold."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import pytest

from mnserve.errors import InvalidRequestError, MessageTooLargeError, UnsupportedError
from mnserve.http.answers import BINARY, HttpAnswer
from mnserve.http.compression import compressed, decompressed
from mnserve.http.errors import BodyMemoryError

TEXT = b"abc" * 1000


def always(_nbytes: int) -> bool:
    """Room for everything."""
    return True


def scope(accepted: bytes | None) -> dict[str, object]:
    return {"headers": [] if accepted is None else [(b"accept-encoding", accepted)]}


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("Deflate", zlib.compress), ("identity", bytes)]
)
def test_bodies_are_decompressed(encoding: str, pack: object) -> None:
    assert decompressed(pack(TEXT), encoding, len(TEXT), always) == TEXT  # type: ignore[operator]


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(200_000_000), 9)
    with pytest.raises(MessageTooLargeError, match="decompressed body has more than 1000 bytes"):
        decompressed(bomb, "gzip", 1000, always)


@pytest.mark.parametrize("nbytes", [0, 1, 2**14, 2**20, 3_000_001])
@pytest.mark.parametrize("content", [bytes, random.Random(0).randbytes], ids=["zeros", "noise"])
def test_bodies_of_every_size_come_out_whole_and_are_counted(nbytes: int, content: Callable[[int], bytes]) -> None:
    counted: list[int] = []
    body = content(nbytes)

    def grow(size: int) -> bool:
        counted.append(size)
        return True

    assert decompressed(gzip.compress(body, mtime=0), "gzip", 2**22, grow) == body
    assert sum(counted) == nbytes
    assert max(counted) <= 2**20


def test_nothing_more_is_unpacked_where_there_is_no_room() -> None:
    counted: list[int] = []

    def grow(size: int) -> bool:
        counted.append(size)
        return sum(counted) <= 2**21

    with pytest.raises(BodyMemoryError):
        decompressed(gzip.compress(bytes(2**26), 9), "gzip", 2**26, grow)
    assert sum(counted) <= 3 * 2**20


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"no gzip", "no gzip"),
        (gzip.compress(TEXT, mtime=0)[:-4], "no end"),
        (gzip.compress(TEXT, mtime=0) + b"more", "no gzip: .*incorrect header"),
        (gzip.compress(TEXT, mtime=0) + bytes(2**15) + b"more", "no gzip: .*incorrect header"),
        (gzip.compress(b"", mtime=0) * 65_537, "more than 65536 members"),
    ],
    ids=["text", "cut off", "more", "much more", "members"],
)
def test_damaged_bodies_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        decompressed(body, "gzip", 10_000, always)


@pytest.mark.parametrize("size", [1, 2**14, 2**16])
def test_a_body_of_several_members_is_read_whole(size: int) -> None:
    parts = [random.Random(k).randbytes(size) for k in range(5)]
    body = b"".join(gzip.compress(part, mtime=0) for part in [*parts, b""]) + bytes(3 * size)
    assert decompressed(body, "gzip", 2**20, always) == b"".join(parts)
    with pytest.raises(InvalidRequestError, match="bytes behind"):
        decompressed(zlib.compress(TEXT) * 2, "deflate", 2**20, always)


def test_other_encodings_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Content-Encoding is 'br'"):
        decompressed(b"", "br", 10, always)


@pytest.mark.parametrize(
    ("accepted", "media_type", "encoding"),
    [
        (b"gzip", BINARY, b"gzip"),
        (b"deflate", BINARY, b"deflate"),
        (b"gzip, deflate", BINARY, None),
        (b"gzip, deflate, br", b"application/json", b"gzip"),
        (b"gzip;q=0, deflate;q=0.5", b"application/json", b"deflate"),
        (b"br", b"application/json", None),
        (b"gzip;q=0.5, deflate;q=1", b"application/json", b"deflate"),
        (b"*", b"application/json", b"gzip"),
        (b"*, gzip;q=0", b"application/json", b"deflate"),
        (b"*;q=0", b"application/json", None),
        (b"*", BINARY, None),
        (b"gzip, identity", BINARY, b"gzip"),
        (b"gzip;q=much, ,", b"application/json", None),
        (None, b"application/json", None),
    ],
)
def test_answers_are_compressed_as_their_clients_ask(
    accepted: bytes | None, media_type: bytes, encoding: bytes | None
) -> None:
    answer = compressed(HttpAnswer(TEXT, media_type), scope(accepted))
    assert dict(answer.headers).get(b"content-encoding") == encoding
    unpack = {b"gzip": gzip.decompress, b"deflate": zlib.decompress, None: bytes}[encoding]
    assert unpack(answer.body) == TEXT


def test_small_answers_and_those_that_do_not_shrink_stay() -> None:
    for body in (b"abc", random.Random(0).randbytes(2000)):
        answer = HttpAnswer(body)
        assert compressed(answer, scope(b"gzip")) is answer

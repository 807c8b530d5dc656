"""Requests that offer another protocol, such as ``Upgrade: h2c``. They are answered in HTTP/1.1, as they allow.

The parser stops behind the head of such a request and skips its body. Java's client makes the offer with every first
request, and so does ``curl --http2``.
"""

from __future__ import annotations

from collections.abc import Iterable

import httptools


def new_parser(protocol: object) -> httptools.HttpRequestParser:
    """Makes a parser of requests that reads on behind one that closes the connection, as uvicorn's do."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def head_of_body(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a head without an offer that has another parser read the same body; empty where there is no body.

    Args:
        headers: Headers of the request, which the parser has checked.
    """
    for name, value in headers:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
            return b"POST / HTTP/1.1\r\n" + name + b": " + value + b"\r\n\r\n"
    return b""

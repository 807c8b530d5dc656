"""Web pages of others cannot make a browser administer a server."""

from __future__ import annotations

import pytest

from mnserve.errors import PermissionDeniedError
from mnserve.http.origins import check_origin


def check(origin: str | None, host: str, *, method: str = "POST", local: bool = False) -> None:
    headers = [(b"host", host.encode()), *([] if origin is None else [(b"origin", origin.encode())])]
    check_origin({"method": method, "headers": headers}, local=local)


@pytest.mark.parametrize(
    ("origin", "host", "local"),
    [
        (None, "server:8000", False),
        ("https://server:8000", "SERVER:8000", False),
        ("http://localhost:8000", "localhost:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
    ],
)
def test_own_pages_and_clients_that_are_no_browsers_may_call(origin: str | None, host: str, local: bool) -> None:
    check(origin, host, local=local)


@pytest.mark.parametrize(
    ("origin", "host", "local"),
    [
        ("https://evil.example", "server:8000", False),
        ("null", "server:8000", False),
        ("http://server:8001", "server:8000", False),
        ("http://evil.example:8000", "evil.example:8000", True),  # whose name leads to this machine
        ("http://[bad", "server:8000", False),
    ],
)
def test_pages_of_others_may_not(origin: str, host: str, local: bool) -> None:
    with pytest.raises(PermissionDeniedError, match="may not call this server"):
        check(origin, host, local=local)
    check(origin, host, local=local, method="GET")

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
        ("http://localhost", "localhost:80", True),
        ("https://server:443", "server", False),
    ],
)
def test_own_pages_and_clients_that_are_no_browsers_may_call(origin: str | None, host: str, local: bool) -> None:
    check(origin, host, local=local)


@pytest.mark.parametrize(
    ("origin", "host", "local"),
    [
        ("https://evil.example", "server:8000", False),
        ("null", "server:8000", False),
        ("null", "", False),
        ("https://server", "server:80", False),
        ("http://server:8001", "server:8000", False),
        ("http://[bad", "server:8000", False),
    ],
)
def test_pages_of_others_may_not(origin: str, host: str, local: bool) -> None:
    with pytest.raises(PermissionDeniedError, match="may not call this server"):
        check(origin, host, local=local)
    check(origin, host, local=local, method="GET")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_for_this_machine_has_its_names_alone(method: str) -> None:
    """A page may have its own name lead to this machine."""
    for host in (
        "evil.example:8000",
        "evil.example",
        "127.0.0.1.evil.example:80",
        "10.0.0.1",
        "localhost.evil.example",
        "127.0.0.1 evil",
        "localhost:80:evil",
    ):
        with pytest.raises(PermissionDeniedError, match=r"answers as localhost or 127\.0\.0\.1 alone"):
            check(None, host, method=method, local=True)
        check(None, host, method=method)
    for host in (
        "localhost",
        "LOCALHOST:8000",
        "127.0.0.1:1",
        "127.1.2.3",
        "[::1]:8000",
        "[::1]",
        "localhost.",
        "a.localhost:8000",
        "localhost:",
    ):
        check(None, host, method=method, local=True)
    check_origin({"method": method, "headers": []}, local=True)  # HTTP/1.0

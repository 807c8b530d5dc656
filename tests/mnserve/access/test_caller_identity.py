"""Identities of callers: whoever can spell itself anew is still one caller."""

from __future__ import annotations

from typing import Any

import pytest

from mnserve.access.caller_identity import address_of, caller_of
from mnserve.errors import UnauthenticatedError

TOKEN = "infer-0123456789abcdef"


class Context:
    """Of a call."""

    def __init__(self, *values: str, peer: str = "ipv4:10.0.0.1:40000") -> None:
        self._metadata = (*[("authorization", value) for value in values], ("x-forwarded-for", "10.9.9.9"))
        self._peer = peer

    def invocation_metadata(self) -> Any:
        return self._metadata

    def peer(self) -> str:
        return self._peer


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:40000", "10.0.0.1"),
        ("ipv6:%5B::1%5D:40000", "::/64"),
        ("ipv6:[2001:db8:1:2:3:4:5:6]:40000", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2::99%5D:1", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:3::99%5D:1", "2001:db8:1:3::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:40000", "fe80::/64"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:40000", "10.0.0.1"),
        ("unix:", "unix"),
        ("unix:a:b", "unix"),
        ("unix-abstract:name", "unix-abstract"),
        ("ipv4:unreadable:1", "unreadable"),
    ],
)
def test_an_address_is_that_of_one_customer(peer: str, address: str) -> None:
    assert address_of(peer) == address
    assert caller_of(Context(f"Bearer {TOKEN}", peer=peer), by_token=False) == address  # type: ignore[arg-type]


def test_every_spelling_of_a_token_is_one_caller() -> None:
    spellings = [f"Bearer {TOKEN}", f"bearer  {TOKEN}", f"BEARER {TOKEN}  ", f"bEaReR   {TOKEN}"]
    callers = {caller_of(Context(text), by_token=True) for text in spellings}  # type: ignore[arg-type]
    assert len(callers) == 1
    assert caller_of(Context(f"Bearer {TOKEN}x"), by_token=True) not in callers  # type: ignore[arg-type]
    assert TOKEN not in str(callers)
    with pytest.raises(UnauthenticatedError):
        caller_of(Context(), by_token=True)  # type: ignore[arg-type]

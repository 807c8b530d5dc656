"""Identity of a caller, as far as rate limits tell callers apart: its token, or its address.

What a caller may write as it likes, such as ``x-forwarded-for``, is no identity.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import unquote

import grpc

from mnserve.access.tokens import token_digest
from mnserve.errors import UnauthenticatedError

_IPV6_PREFIX: Final = 64
"""Bits of an address that belong to one customer of a network, who may change the others at will."""


def caller_of(context: grpc.aio.ServicerContext[Any, Any], *, by_token: bool) -> bytes | str:
    """Returns the identity of a caller.

    Args:
        context: Context of the call.
        by_token: Calls need tokens, and this one's was checked. Otherwise a caller could write any token, so its
            address counts.

    Raises:
        UnauthenticatedError: The call has no token.
    """
    if by_token:
        return token_digest(bearer_token(context.invocation_metadata() or ()))
    return address_of(context.peer())


def bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Finds the token of a call.

    Raises:
        UnauthenticatedError: There is none, or more than one.
    """
    values = [value for key, value in metadata if key == "authorization"]
    if len(values) != 1:
        count = "no" if not values else "more than one"
        raise UnauthenticatedError(
            f"the call has {count} token; send `authorization: Bearer TOKEN` once, as metadata or header"
        )
    text = values[0] if isinstance(values[0], str) else ""
    scheme, _, token = text.partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthenticatedError("the call's authorization is no bearer token; send `authorization: Bearer TOKEN`")
    return token.strip()


def address_of(peer: str) -> str:
    """Returns the address of a peer without its port; of IPv6 the network, since its owner has all addresses of it.

    Args:
        peer: Peer as gRPC writes it, such as ``ipv4:10.0.0.1:40000`` or ``ipv6:%5B::1%5D:40000``.
    """
    kind, _, rest = peer.partition(":")
    return _address(rest.rpartition(":")[0]) if kind in ("ipv4", "ipv6") else kind


@lru_cache(maxsize=4096)
def _address(host: str) -> str:
    text = unquote(host).strip("[]").partition("%")[0]  # without the interface
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, _IPV6_PREFIX), strict=False))

"""Channels that spread calls over several servers, and try another one where one has gone.

gRPC itself does both, once its options say so. The options and targets here also fit channels of other clients, such as
``tritonclient.grpc.InferenceServerClient(url=target, channel_args=options)``.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Final

from mnserve.access.addresses import join_address
from mnserve.client.channels import DEFAULT_PORT, parse_address
from mnserve.errors import ServerUnreachableError, SettingsError

_SERVICE_CONFIG: Final = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
    }
)
_RETRIED_BYTES: Final = 64 * 2**20
"""Largest request that is kept for another attempt; gRPC's own limit is 256 KiB."""

BALANCED_OPTIONS: Final[tuple[tuple[str, str | int], ...]] = (
    ("grpc.service_config", _SERVICE_CONFIG),
    ("grpc.enable_retries", 1),
    ("grpc.per_rpc_retry_buffer_size", _RETRIED_BYTES),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
"""Options of a channel: each call to the next server, and UNAVAILABLE up to five times, as the server paces it."""


def balanced_target(urls: Sequence[str]) -> str:
    """Returns the target of a channel to several servers.

    Args:
        urls: ``HOST:PORT`` of each server, with or without its scheme. One name alone is left to gRPC, which asks DNS
            for all of its addresses, and asks again after a failure.

    Raises:
        SettingsError: There is no address, or one cannot be used.
        ServerUnreachableError: A name is not known.
    """
    targets = [parse_address(url).target for url in urls]
    if not targets:
        raise SettingsError(f"there is no address of a server; give at least one HOST:PORT, such as a:{DEFAULT_PORT}")
    if len(targets) == 1 and not _is_number(targets[0].rpartition(":")[0]):
        return f"dns:///{targets[0]}"
    numbers = [number for target in targets for number in _numbers(target)]
    families = {family for family, _ in numbers}
    if len(families) > 1:  # a target has addresses of one family
        numbers = [item for item in numbers if item[0] == socket.AF_INET]
    scheme = "ipv6" if families == {socket.AF_INET6} else "ipv4"
    return f"{scheme}:" + ",".join(dict.fromkeys(address for _, address in numbers))


def _is_number(host: str) -> bool:
    bare = host.removeprefix("[").removesuffix("]")
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, bare)
        except OSError:
            continue
        return True
    return False


def _numbers(target: str) -> list[tuple[socket.AddressFamily, str]]:
    host, _, port = target.rpartition(":")
    try:
        found = socket.getaddrinfo(host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise ServerUnreachableError(f"the host of {target} is not known ({error.strerror}); correct it") from error
    return [(family, join_address(str(address[0]), int(port))) for family, _, _, _, address in found]

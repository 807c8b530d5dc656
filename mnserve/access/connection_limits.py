"""Limits, keepalive and age of connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mnserve.errors import SettingsError

_MAX_SECONDS: Final = 604_800
_MIN_METADATA: Final = 2048
"""Little more than the headers that every call has."""
_MAX_METADATA: Final = 2**20
_MAX_STREAMS: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TransportSettings:
    """Limits, keepalive and age of connections.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    max_metadata_bytes: int = 16_384
    """Most bytes of metadata that a call may come with, 32 more counted for every entry."""
    max_concurrent_streams: int = 0
    """Most calls in progress on one connection, those beyond it wait at the client; 0 is no limit."""
    keepalive_time: float = 7200.0
    """Seconds without traffic until the server pings a client to see whether it is still there."""
    keepalive_timeout: float = 20.0
    """Seconds that the client gets to answer this before it counts as gone."""
    keepalive_permit_without_calls: bool = False
    """Ping, and let clients ping, while a connection has no call."""
    keepalive_min_ping_interval: float = 300.0
    """Least seconds between two pings of a client; one that keeps sending more is disconnected (too_many_pings)."""
    max_connection_age: float = 0.0
    """Seconds, give or take a tenth, until a client is asked to connect again; 0 is never."""
    max_connection_age_grace: float = 0.0
    """Seconds that calls in progress get after that; 0 lets them end by themselves."""

    def __post_init__(self) -> None:
        if not _MIN_METADATA <= self.max_metadata_bytes <= _MAX_METADATA:
            raise SettingsError(
                f"--max-metadata-bytes is {self.max_metadata_bytes}; it must be from {_MIN_METADATA} to {_MAX_METADATA}"
            )
        if not 0 <= self.max_concurrent_streams <= _MAX_STREAMS:
            raise SettingsError(
                f"--max-concurrent-streams is {self.max_concurrent_streams}; it must be 0 (no limit) or up to "
                f"{_MAX_STREAMS}"
            )
        for option, seconds, minimum in (
            ("--keepalive-time", self.keepalive_time, 0.1),
            ("--keepalive-timeout", self.keepalive_timeout, 0.1),
            ("--keepalive-min-ping-interval", self.keepalive_min_ping_interval, 0),
            ("--max-connection-age", self.max_connection_age, 0),
            ("--max-connection-age-grace", self.max_connection_age_grace, 0),
        ):
            if not minimum <= seconds <= _MAX_SECONDS:
                raise SettingsError(f"{option} is {seconds}; it must be from {minimum} to {_MAX_SECONDS} seconds")
        if self.max_connection_age_grace and not self.max_connection_age:
            raise SettingsError(
                "--max-connection-age-grace is what comes after --max-connection-age, which is not given; give both"
            )

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """The same limits as options of gRPC."""
        options = [
            # The soft and the hard limit are equal: between two different ones gRPC refuses at random.
            ("grpc.max_metadata_size", self.max_metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.max_metadata_bytes),
            ("grpc.keepalive_time_ms", _milliseconds(self.keepalive_time)),
            ("grpc.keepalive_timeout_ms", _milliseconds(self.keepalive_timeout)),
            ("grpc.keepalive_permit_without_calls", int(self.keepalive_permit_without_calls)),
            # Unlike the constant in gRPC's header the name has no "recv"; gRPC ignores unknown names.
            ("grpc.http2.min_ping_interval_without_data_ms", _milliseconds(self.keepalive_min_ping_interval)),
        ]
        if self.max_concurrent_streams:
            options.append(("grpc.max_concurrent_streams", self.max_concurrent_streams))
            # The protection would also count ended calls that are not cleared away yet, and refuse (REFUSED_STREAM)
            # the next call of a client that keeps to the limit.
            options.append(("grpc.http.overload_protection", 0))
        if self.max_connection_age:
            options.append(("grpc.max_connection_age_ms", _milliseconds(self.max_connection_age)))
        if self.max_connection_age_grace:
            options.append(("grpc.max_connection_age_grace_ms", _milliseconds(self.max_connection_age_grace)))
        return tuple(options)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)

"""Settings of ``mnserve health``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mnserve.client.settings import ConnectionSettings
from mnserve.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class HealthSettings:
    """Asks the health service ``grpc.health.v1`` of a server. No token is needed.

    Raises:
        SettingsError: A value cannot work; the message names the option, the value and the remedy.
    """

    url: str = "127.0.0.1:8001"
    """Address of the server, HOST:PORT, or grpcs://HOST:PORT for TLS."""
    service: str = ""
    """A model, or inference.GRPCInferenceService/ServerLive for the process alone; empty for the whole server."""
    timeout: float = 5.0
    """Seconds to wait for the answer."""
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise SettingsError(f"--timeout is {self.timeout}; it must be a number of seconds above 0")

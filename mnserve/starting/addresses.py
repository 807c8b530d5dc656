"""Addresses of a server that has started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Addresses that the server listens on, with the ports that were taken.

    Attributes:
        grpc: URL of the gRPC server.
        metrics: URL of the metrics.
        http: URL of the HTTP server; None where there is none.
    """

    grpc: str
    metrics: str
    http: str | None = None

"""Limits of the connections of HTTP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits of connections. Times are seconds.

    Attributes:
        connections: Connections at a time; others wait to be accepted.
        head_bytes: Most bytes of the line and the headers of a request.
        head_seconds: Time to send them.
        idle_seconds: Time in which a client may read nothing of its answer, or send nothing of a body.
        body_seconds: Time for a whole body.
        answer_seconds: Time to read a whole answer.
        keep_alive_seconds: Time between an answer and the next request.
        grace_seconds: Time for a request, or for a handshake, while other connections wait for a place.
        handshake_seconds: Time for the handshake of TLS.
        age_seconds: Age at which a connection is closed, after the answer that it waits for; 0 is none.
        unread_bytes: Bytes of answers that clients have not read, of all connections. While there are more, the one
            that is being read for longest is ended.
    """

    connections: int = 1024
    head_bytes: int = 16_384
    head_seconds: float = 10.0
    idle_seconds: float = 10.0
    body_seconds: float = 300.0
    answer_seconds: float = 300.0
    keep_alive_seconds: float = 75.0
    grace_seconds: float = 0.5
    handshake_seconds: float = 10.0
    age_seconds: float = 0.0
    unread_bytes: int = 2**30

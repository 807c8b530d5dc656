"""Ends of a call that gRPC has no class for.

Exception
├── BodyMemoryError     there is no memory for a body
├── CallFailedError     a call of the protocol has ended with a status
├── ClientLeftError     nobody waits for an answer
└── RequestError
    └── SlowBodyError   the body was not there in time
"""

from __future__ import annotations

from mnserve.errors import RequestError
from mnserve.failing import Refusal


class CallFailedError(Exception):
    """Ends a call of the protocol with a status, as ``abort`` does in gRPC.

    Args:
        status: The status.
    """

    def __init__(self, status: Refusal) -> None:
        super().__init__(status.details)
        self.status = status


class ClientLeftError(Exception):
    """The client has closed the connection: nobody waits for an answer."""


class BodyMemoryError(Exception):
    """There is no memory for a body now."""


class SlowBodyError(RequestError):
    """A body that does not arrive in time."""

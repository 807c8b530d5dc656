"""What the calls over HTTP are answered from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from mnserve.access.authorization import Authorization
from mnserve.access.call_limits import CallLimits
from mnserve.errors import RequestError
from mnserve.http.body_memory import BodyMemory
from mnserve.http.context import HttpContext
from mnserve.models.catalogue import Catalogue
from mnserve.protocol import service_pb2
from mnserve.rpc.heap_trimming import HeapTrimming
from mnserve.rpc.servicer import Servicer
from mnserve.settings import ServeSettings

SERVICE: Final = f"/{service_pb2.DESCRIPTOR.services_by_name['GRPCInferenceService'].full_name}/"
"""Beginning of the full names of its calls."""


@dataclass(frozen=True, kw_only=True)
class HttpServices:
    """Services of one process that takes calls in, the same as those of its gRPC port.

    Attributes:
        settings: Settings of the command line.
        models: The models.
        calls: Answers the calls of the protocol.
        limits: Bounds of the calls in progress.
        authorization: Checks the tokens of calls; None where they need none.
        heap: Gives the memory of large bodies back.
        metrics: Reads the metrics of the whole server: their text and its type, for a header ``Accept``.
    """

    settings: ServeSettings
    models: Catalogue
    calls: Servicer
    limits: CallLimits
    authorization: Authorization | None
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    heap: HeapTrimming = field(default_factory=HeapTrimming)

    @cached_property
    def bodies(self) -> BodyMemory:
        """Memory of the bodies that are held at a time; a body of the largest size fits in, packed and unpacked."""
        most = max(self.settings.max_queue_bytes, 2 * self.settings.max_message_bytes)
        return BodyMemory(most, self.limits.refused)

    @cached_property
    def is_open_locally(self) -> bool:
        """True where anyone may call, and only from this machine."""
        return self.authorization is None and self.settings.is_local

    def authorize(self, method: str, context: HttpContext) -> None:
        """Checks that a caller may make a call.

        Args:
            method: Name of the call of the protocol, such as ``ModelInfer``, whose right is needed.
            context: Context of the call.

        Raises:
            RequestError: It may not.
        """
        if self.authorization is None:
            return
        try:
            self.authorization.check(f"{SERVICE}{method}", context.invocation_metadata())
        except RequestError as error:
            raise self.authorization.refusal(error, context.peer()) from None

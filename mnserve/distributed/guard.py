"""Rights of callers behind Ray Serve's proxies, checked before they are told anything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from mnserve.access.authorization import Authorization
from mnserve.access.refused_calls import RefusedCalls
from mnserve.distributed.calls import HEALTH, HEALTH_CHECK, LIST, PROTOCOL, REPLICAS
from mnserve.errors import RequestError
from mnserve.rpc.offered import rate_limits
from mnserve.settings import ServeSettings

_SERVICES = {HEALTH_CHECK: HEALTH, LIST: REPLICAS}
"""Services of the calls that are not of the protocol."""


class CallOrigin(Protocol):
    """What a call tells of who makes it."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]]: ...

    def peer(self) -> str: ...


class Guard:
    """Checks the tokens of calls as a server of its own does, by the same file, rights and limits.

    Args:
        settings: Settings of the command line.
        refused: Counts the calls that fail here; None counts nothing.

    Raises:
        CredentialsError: The file of tokens cannot be used.
    """

    def __init__(self, settings: ServeSettings, refused: RefusedCalls | None = None) -> None:
        file = settings.security.token_file
        self._tokens = None if file is None else Authorization(Path(file), rate_limits(settings), refused)

    def check(self, name: str, caller: CallOrigin) -> None:
        """Checks that a caller may make a call.

        Args:
            name: Name of the call, without its service.
            caller: Context of the call.

        Raises:
            RequestError: It may not, or too many calls from its address failed here.
        """
        if self._tokens is None:
            return
        try:
            self._tokens.check(f"/{_SERVICES.get(name, PROTOCOL)}/{name}", caller.invocation_metadata())
        except RequestError as error:
            raise self._tokens.refusal(error, caller.peer()) from None

"""Rights of callers behind Ray Serve's proxies, and sizes of their messages, checked before anything else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from mnserve.access.authorization import Authorization
from mnserve.access.refused_calls import RefusedCalls
from mnserve.distributed.calls import HEALTH, HEALTH_CHECK, LIST, PROTOCOL, REPLICAS, STREAM
from mnserve.errors import MessageTooLargeError, RequestError
from mnserve.rpc.offered import rate_limits
from mnserve.rpc.small_calls import MAX_BYTES
from mnserve.settings import ServeSettings

_SERVICES = {HEALTH_CHECK: HEALTH, LIST: REPLICAS}
"""Services of the calls that are not of the protocol."""
_WITH_TENSORS = ("ModelInfer", STREAM)
"""Calls whose messages may be large."""


class CallOrigin(Protocol):
    """What a call tells of who makes it."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]]: ...

    def peer(self) -> str: ...


class Guard:
    """Checks tokens and messages of calls as a server of its own does, by the same file, rights and limits.

    Args:
        settings: Settings of the command line.
        refused: Counts the calls that fail here; None counts nothing.

    Raises:
        CredentialsError: The file of tokens cannot be used.
    """

    def __init__(self, settings: ServeSettings, refused: RefusedCalls | None = None) -> None:
        self._most = settings.max_message_bytes
        self._refused = RefusedCalls() if refused is None else refused
        file = settings.security.token_file
        self._tokens = None if file is None else Authorization(Path(file), rate_limits(settings), self._refused)

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

    def check_size(self, name: str, data: bytes) -> None:
        """Checks the size of a message, since Ray Serve's proxies take up to 2 GiB.

        Args:
            name: Name of the call, without its service.
            data: The message.

        Raises:
            MessageTooLargeError: It is larger than its call takes.
        """
        most = self._most if name in _WITH_TENSORS else MAX_BYTES
        if len(data) > most:
            self._refused.count("MESSAGE")
            remedy = "; send smaller batches, or raise --max-message-bytes" if name in _WITH_TENSORS else ""
            raise MessageTooLargeError(
                f"the message of {name} has {len(data)} bytes, and this call takes at most {most}{remedy}"
            )

"""One call over HTTP: its caller's right, its place, its body, and its answer or failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import orjson

from mnserve.access.call_limits import LargeCalls
from mnserve.errors import InvalidRequestError, MessageTooLargeError, TooManyCallsError
from mnserve.failing import drop_frames
from mnserve.http.answers import HttpAnswer
from mnserve.http.bodies import SMALL_BYTES, read_body
from mnserve.http.body_memory import HeldBody
from mnserve.http.compression import compressed, decompressed
from mnserve.http.context import HttpContext
from mnserve.http.errors import BodyMemoryError, ClientLeftError
from mnserve.http.failures import failure
from mnserve.http.headers import Scope
from mnserve.http.origins import check_origin
from mnserve.http.services import HttpServices
from mnserve.rpc.servicer import Servicer

Message = TypeVar("Message")
Response = TypeVar("Response")

_MAX_FIELDS: Final = 64
_TRIMMED_BYTES: Final = 2**16
_INLINE_BYTES: Final = 2**15
"""Answers up to this size are compressed on the event loop."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request whose body is there.

    Attributes:
        services: What it is answered from.
        context: Its context, for the services of gRPC.
        method: Its method, such as ``GET``.
        path: Parts of its path that stand for something, such as the name of a model.
        query: What stands behind the question mark; of a name that is given twice, the last.
        body: Its body.
    """

    services: HttpServices
    context: HttpContext
    method: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    @property
    def calls(self) -> Servicer:
        """Calls of the protocol."""
        return self.services.calls

    async def ask(self, method: Callable[[Message, Any], Awaitable[Response]], message: Message) -> Response:
        """Makes a call of the protocol in the name of the caller.

        Args:
            method: The call, one of ``calls``.
            message: Its message.

        Raises:
            CallFailedError: The call has failed.
        """
        return await method(message, self.context)

    def json(self) -> dict[str, Any]:
        """Returns the object of JSON in the body; an empty body is an empty object.

        Raises:
            InvalidRequestError: The body is something else.
        """
        if not self.body.strip():
            return {}
        try:
            content = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise InvalidRequestError(f"the body is no JSON: {error}; send an object, such as {{}}") from None
        if not isinstance(content, dict):
            raise InvalidRequestError("the body is JSON, but no object; send one, such as {}")
        return content


Handler: TypeAlias = Callable[[Request], Awaitable[HttpAnswer]]


class Call:
    """Answers the requests of one route; an application of ASGI.

    Args:
        services: What calls are answered from.
        answer: Answers a request.
        right: Name of the call of the protocol whose right is needed; None where any caller may make it.
        most: Largest body.
        places: Places of the calls whose bodies may be large; None for one of the calls without tensors.
        cancellable: End the call once its client has left.
    """

    def __init__(
        self,
        services: HttpServices,
        answer: Handler,
        *,
        right: str | None,
        most: int = SMALL_BYTES,
        places: LargeCalls | None = None,
        cancellable: bool = False,
    ) -> None:
        self._services, self._answer, self._right = services, answer, right
        self._most, self._places, self._cancellable = most, places, cancellable

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one request."""
        context = HttpContext(scope)
        try:
            check_origin(scope, local=self._services.is_open_locally)
            if self._right is not None:
                self._services.authorize(self._right, context)
            if self._places is None:
                with self._services.limits.calls.place(context.peer()):
                    answer = await self._answered(scope, receive, context)
            else:
                if not self._places.has_room():
                    raise self._places.refusal()
                if (task := asyncio.current_task()) is not None:
                    self._places.begin(task)
                answer = await self._answered(scope, receive, context)
        except (ClientLeftError, asyncio.CancelledError):  # nobody waits, or the server ends
            return
        except Exception as error:  # noqa: BLE001 (every error becomes an answer)
            self._count(error)
            answer = failure(error)
            drop_frames(error)
        if len(answer.body) > _INLINE_BYTES and context.header(b"accept-encoding") is not None:
            answer = await asyncio.to_thread(compressed, answer, scope)
        else:
            answer = compressed(answer, scope)
        await answer.send(send)

    def _count(self, error: Exception) -> None:
        """Counts a refusal that no model knows of."""
        if isinstance(error, MessageTooLargeError):
            self._services.limits.refused.count("MESSAGE")
        elif isinstance(error, TooManyCallsError) and self._places is None:  # others count their own
            self._services.limits.refused.count("PLACES")

    async def _answered(self, scope: Scope, receive: Any, context: HttpContext) -> HttpAnswer:
        with HeldBody(self._services.bodies) as held:
            try:
                body = await read_body(receive, context, self._most, held)
                if (encoding := context.header(b"content-encoding")) is not None:
                    async with held.memory.unpacking:
                        packed, body = (
                            len(body),
                            await asyncio.to_thread(decompressed, body, encoding, self._most, held.grow),
                        )
                    held.shrink(packed)
            except BodyMemoryError:
                raise held.memory.refusal() from None
            return await self._answer_to(body, scope, receive, context)

    async def _answer_to(self, body: bytes, scope: Scope, receive: Any, context: HttpContext) -> HttpAnswer:
        request = Request(
            services=self._services,
            context=context,
            method=scope["method"],
            path=scope.get("path_params", {}),
            query=_query(scope.get("query_string", b"")),
            body=body,
        )
        try:
            return await (until_left(self._answer(request), receive) if self._cancellable else self._answer(request))
        finally:
            if len(body) > _TRIMMED_BYTES:
                self._services.heap.ended(len(body))


async def until_left(answer: Awaitable[HttpAnswer], receive: Any) -> HttpAnswer:
    """Waits for an answer, and cancels it once the client has left.

    Args:
        answer: The answer.
        receive: Gives messages of ASGI; the body was read.

    Raises:
        ClientLeftError: The client has left.
    """
    task, left = asyncio.current_task(), False
    assert task is not None

    def on_left(watch: asyncio.Task[Any]) -> None:
        nonlocal left
        if not watch.cancelled():
            left = True
            task.cancel()

    watch = asyncio.get_running_loop().create_task(receive())
    watch.add_done_callback(on_left)
    try:
        return await answer
    except asyncio.CancelledError:
        if left and not task.uncancel():
            raise ClientLeftError from None
        raise
    finally:
        watch.remove_done_callback(on_left)
        watch.cancel()


def _query(text: bytes) -> dict[str, str]:
    if not text:
        return {}
    try:
        return dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise InvalidRequestError(f"the address has more than {_MAX_FIELDS} values behind the ?") from None

"""One call over HTTP: its caller's right, its place, its body, and its answer or failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from mnserve.access.call_limits import LargeCalls
from mnserve.errors import InvalidRequestError
from mnserve.http.answers import HttpAnswer
from mnserve.http.bodies import SMALL_BYTES, ClientLeftError, read_body
from mnserve.http.context import HttpContext, Scope
from mnserve.http.failures import failure
from mnserve.http.services import HttpServices


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request whose body is there.

    Attributes:
        services: What it is answered from.
        context: Its context, for the services of gRPC.
        path: Parts of its path that stand for something, such as the name of a model.
        body: Its body.
    """

    services: HttpServices
    context: HttpContext
    path: Mapping[str, str]
    body: bytes

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
        except ClientLeftError:
            return
        except Exception as error:  # noqa: BLE001 (every error becomes an answer)
            answer = failure(error)
        await answer.send(send)

    async def _answered(self, scope: Scope, receive: Any, context: HttpContext) -> HttpAnswer:
        body = await read_body(receive, context, self._most)
        request = Request(services=self._services, context=context, path=scope.get("path_params", {}), body=body)
        return await (until_left(self._answer(request), receive) if self._cancellable else self._answer(request))


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

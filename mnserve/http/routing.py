"""Routes whose refusals are sentences in JSON."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from mnserve.http.answers import json_answer
from mnserve.http.headers import Scope


class JsonRoute(Route):
    """A route that refuses other methods as every other fault is refused."""

    async def handle(self, scope: Scope, receive: Any, send: Any) -> None:
        """See :meth:`starlette.routing.Route.handle`."""
        if not self.methods or scope["method"] in self.methods:
            await self.app(scope, receive, send)
            return
        methods = ", ".join(sorted(self.methods))
        error = {"error": f"{scope['method']} is no method of {scope['path'][:80]}; it has {methods}"}
        await json_answer(error, 405, ((b"allow", methods.encode()),)).send(send)


async def not_found(scope: Scope, _receive: Any, send: Any) -> None:
    """Answers an address that there is not."""
    path = scope["path"][:80]
    await json_answer({"error": f"there is nothing at {path}; GET /openapi.json lists what there is"}, 404).send(send)

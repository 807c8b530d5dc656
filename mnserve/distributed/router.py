"""Deployment in front of models that have deployments of their own: each call goes to the model that it names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import grpc
from grpc_health.v1 import health_pb2
from starlette.requests import Request
from starlette.responses import Response

from mnserve.distributed.calls import HEALTH_CHECK, LIST, OWN_STATUS, STREAM
from mnserve.distributed.guard import Guard
from mnserve.distributed.ingress import lost_status
from mnserve.distributed.joined_statistics import join_statistics
from mnserve.distributed.named_model import NAME_FIELDS, first_name, named_model
from mnserve.distributed.protocol_methods import ProtocolMethods
from mnserve.distributed.proxied_context import ProxiedContext, ServeContext, Status, StreamEndedError
from mnserve.distributed.replica_list import list_over_grpc, list_over_http
from mnserve.distributed.settings import RaySettings
from mnserve.errors import RequestError
from mnserve.failing import ended
from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.health import SERVER_SERVICES
from mnserve.rpc.messages import LargeMessages, Parser
from mnserve.rpc.servicer import FINAL, FINAL_ASKED
from mnserve.rpc.streaming import StreamedRequest, answer_in_order
from mnserve.text.names import listed, printable, shortened

_MOST_UNSENT: Final = 8


class _Answer(NamedTuple):
    """Answer of a deployment, or the status of a call that failed."""

    data: bytes
    status: Status | None = None


class _Asked(NamedTuple):
    """A request of a stream, and what its answer takes from it."""

    data: bytes
    model: str
    id: str
    final: bool


class Router(ProtocolMethods):
    """Hands calls over to the deployments of the models.

    Args:
        models: Name of a model -> handle of its deployment.
        settings: Settings of the command line.

    Raises:
        CredentialsError: The file of tokens cannot be used.
    """

    def __init__(self, models: Mapping[str, Any], settings: RaySettings) -> None:
        self._models = models
        self._guard = Guard(settings)
        self._parser = Parser(pb.ModelInferRequest.FromString, LargeMessages())

    async def answer(self, name: str, data: bytes, context: ServeContext) -> bytes:
        """See :meth:`ProtocolMethods.answer`."""
        if name == LIST:
            return await list_over_grpc(self._guard, self.replicas, context)
        proxied = ProxiedContext(context)
        try:
            self._guard.check(name, proxied)
            self._guard.check_size(name, data)
            answer = await self._answer(name, data, context)
        except RequestError as error:
            await ended(proxied, error)
            return b""
        if answer.status is not None:
            context.set_code(grpc.StatusCode[answer.status.code])
            context.set_details(answer.status.details)
            trailing = [item for item in answer.status.trailing if item[0] != OWN_STATUS]
            context.set_trailing_metadata([*trailing, (OWN_STATUS, answer.status.code)])
        return answer.data

    async def answer_stream(self, requests: AsyncIterator[bytes], context: ServeContext) -> AsyncIterator[bytes]:
        """See :meth:`ProtocolMethods.answer_stream`; models may change from one request to the next.

        Raises:
            StreamEndedError: The stream ends with the status in its context.
        """
        proxied = ProxiedContext(context)
        try:
            self._guard.check(STREAM, proxied)
            async with aclosing(self._streamed(requests, context)) as responses:
                async for response in responses:
                    yield response
        except RequestError as error:
            await ended(proxied, error)
            raise StreamEndedError from None

    async def _streamed(self, requests: AsyncIterator[bytes], context: ServeContext) -> AsyncGenerator[bytes]:
        answers: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_UNSENT)

        async def read() -> AsyncIterator[_Asked]:
            async for data in requests:
                self._guard.check_size(STREAM, data)
                message = await self._parser.parse(data)
                final = FINAL_ASKED in message.parameters and message.parameters[FINAL_ASKED].bool_param
                yield _Asked(data, message.model_name, message.id, final)

        async def answer(asked: _Asked, streamed: StreamedRequest) -> bytes:
            found = await self._to_model(asked.model, "ModelInfer", asked.data, context)
            streamed.answered(len(found.data))
            return _streamed_answer(asked, found)

        async def run() -> None:
            try:
                await answer_in_order(read(), answer, answers.put)
            finally:
                await answers.put(None)

        running = asyncio.ensure_future(run())
        try:
            while (response := await answers.get()) is not None:
                yield response
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def __call__(self, request: Request) -> Response:
        """Lists the replicas over HTTP, too."""
        return await list_over_http(self._guard, self.replicas, request)

    async def replicas(self) -> list[dict[str, Any]]:
        """Lists the replicas of all models with their addresses."""
        of_models = await asyncio.gather(
            *(handle.replicas.remote() for handle in self._models.values()), return_exceptions=True
        )
        return [replica for replicas in of_models if not isinstance(replicas, BaseException) for replica in replicas]

    async def reload_all(self) -> list[str]:
        """Has all replicas of all models load them again; returns the different faults."""
        of_models = await asyncio.gather(*(handle.reload_all.remote() for handle in self._models.values()))
        return [fault for faults in of_models for fault in faults]

    async def _answer(self, name: str, data: bytes, context: ServeContext) -> _Answer:
        if (of_all := self._of_all(name, data)) is not None:
            return await of_all(name, data, context)
        if name == "ModelInfer":
            model = first_name(data)
            return await self._to_model(model or (await self._parser.parse(data)).model_name, name, data, context)
        if name not in NAME_FIELDS:  # what a server tells of itself, and calls that are refused, are the same at all
            return await self._forward(next(iter(self._models)), name, data, context)
        model = named_model(name, data)
        if name == HEALTH_CHECK and model not in self._models:  # a service that is no model, or one that nobody has
            return await self._forward(next(iter(self._models)), name, data, context)
        return await self._to_model(model or "", name, data, context)

    async def _to_model(self, model: str, name: str, data: bytes, context: ServeContext) -> _Answer:
        if model not in self._models:
            known = listed(sorted(self._models))
            wanted = printable(shortened(model))
            return _Answer(b"", Status("NOT_FOUND", f"there is no model '{wanted}'; the server has {known}", []))
        return await self._forward(model, name, data, context)

    def _of_all(self, name: str, data: bytes) -> Callable[[str, bytes, ServeContext], Awaitable[_Answer]] | None:
        """Finds the way to answer a call that is about all models; None for one about a model, or about none."""
        if name == "ServerReady":
            return self._server_ready
        if name == "RepositoryIndex":
            return self._index
        if name == "ModelStatistics" and not named_model(name, data):
            return self._statistics
        if name == HEALTH_CHECK and (named_model(name, data) or "") in SERVER_SERVICES:
            return self._health
        return None

    async def _server_ready(self, name: str, data: bytes, context: ServeContext) -> _Answer:
        answers = await self._forward_to_all(name, data, context)
        ready = all(
            answer.status is None and pb.ServerReadyResponse.FromString(answer.data).ready for answer in answers
        )
        return _Answer(pb.ServerReadyResponse(ready=ready).SerializeToString())

    async def _health(self, name: str, data: bytes, context: ServeContext) -> _Answer:
        answers = await self._forward_to_all(name, data, context)
        serving = health_pb2.HealthCheckResponse.SERVING
        healthy = all(
            answer.status is None and health_pb2.HealthCheckResponse.FromString(answer.data).status == serving
            for answer in answers
        )
        status = serving if healthy else health_pb2.HealthCheckResponse.NOT_SERVING
        return _Answer(health_pb2.HealthCheckResponse(status=status).SerializeToString())

    async def _index(self, name: str, data: bytes, context: ServeContext) -> _Answer:
        joined = pb.RepositoryIndexResponse()
        for model, answer in zip(self._models, await self._forward_to_all(name, data, context), strict=True):
            if answer.status is not None:
                return answer
            rows = pb.RepositoryIndexResponse.FromString(answer.data).models
            joined.models.extend(row for row in rows if row.name == model)
        return _Answer(joined.SerializeToString())

    async def _statistics(self, name: str, data: bytes, context: ServeContext) -> _Answer:
        answers = await self._forward_to_all(name, data, context)
        failed = next((answer for answer in answers if answer.status is not None), None)
        if failed is not None:
            return failed
        of_models = [pb.ModelStatisticsResponse.FromString(answer.data).model_stats for answer in answers]
        return _Answer(pb.ModelStatisticsResponse(model_stats=join_statistics(of_models)).SerializeToString())

    async def _forward_to_all(self, name: str, data: bytes, context: ServeContext) -> list[_Answer]:
        return list(await asyncio.gather(*(self._forward(model, name, data, context) for model in self._models)))

    async def _forward(self, model: str, name: str, data: bytes, context: ServeContext) -> _Answer:
        metadata, peer = context.invocation_metadata(), context.peer()
        try:
            response, status = await self._models[model].forward.remote(name, data, metadata, peer)
        except Exception:  # noqa: BLE001 (whatever Ray raises where a replica ends or cannot be reached)
            return _Answer(b"", lost_status(metadata))
        return _Answer(response, status)


def _streamed_answer(asked: _Asked, answer: _Answer) -> bytes:
    """Makes the message of a stream from the answer to one request."""
    if answer.status is not None:
        response = pb.ModelInferResponse(model_name=asked.model, id=asked.id)
        failed = pb.ModelStreamInferResponse(error_message=answer.status.details, infer_response=response)
        return failed.SerializeToString()
    response = pb.ModelInferResponse.FromString(answer.data)
    if asked.final:
        response.parameters[FINAL].bool_param = True
    return pb.ModelStreamInferResponse(infer_response=response).SerializeToString()

"""Served model for code that waits for its answers in a thread, while the event loop does the inference."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import numpy as np

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.packed_tensors import datatype_name
from mnserve.codec.tensors import array_to_raw, raw_to_array
from mnserve.console.waiting import Waiting
from mnserve.errors import InvalidRequestError, UnavailableError
from mnserve.http.errors import CallFailedError
from mnserve.models.catalogue import Endpoint
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig

Array: TypeAlias = np.ndarray[Any, Any]
Infer: TypeAlias = Callable[[pb.ModelInferRequest], Awaitable[pb.ModelInferResponse]]
"""Answers one request, with all limits of requests."""

PATIENCE: Final = 60.0
"""Seconds that an answer may take."""

_PASSING: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


class ConsoleModel:
    """Has the batches of a prediction answered as requests; a ``CalledModel``.

    Args:
        endpoint: The version of the model.
        infer: Answers one request.
        loop: Event loop of the server.
        waiting: Tells whether anybody waits for the prediction.
    """

    def __init__(self, endpoint: Endpoint, infer: Infer, loop: asyncio.AbstractEventLoop, waiting: Waiting) -> None:
        self._endpoint, self._infer, self._loop, self.waiting = endpoint, infer, loop, waiting
        self.seconds = 0.0
        """Time of all inference so far, from the request to its answer."""

    @property
    def config(self) -> ModelConfig:
        """Complete configuration of the model."""
        return self._endpoint.config

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names from the label file of an output; empty without one."""
        return next((tuple(names) for names in self._endpoint.signature.labels.values()), ())

    @property
    def training_images(self) -> Path | None:
        """None: they are found by ``neighbor_images``."""
        return None

    def infer(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """Runs one batch.

        Args:
            feeds: Input name -> array with the batch dimension.
            outputs: Outputs to fetch; those that the model gives by itself where empty.

        Returns:
            Output name -> array.

        Raises:
            MnServeError: The error of the request.
            ClientLeftError: Nobody waits for the prediction.
        """
        self.waiting.check()
        request = pb.ModelInferRequest(model_name=self._endpoint.name, model_version=str(self._endpoint.version))
        for name, array in feeds.items():
            datatype = self._datatypes.get(name) or datatype_name(array)
            request.inputs.add(name=name, datatype=datatype, shape=array.shape)
            request.raw_input_contents.append(array_to_raw(array, DATATYPES[datatype]))
        for name in outputs:
            request.outputs.add(name=name)
        started = time.perf_counter()
        future = asyncio.run_coroutine_threadsafe(self._answered(request), self._loop)
        try:
            response = self.waiting.result(future, PATIENCE)
        except TimeoutError:
            raise UnavailableError(
                f"model '{self._endpoint.name}' gave no answer within {PATIENCE:g} s; try again later, or look at its "
                "queue"
            ) from None
        except CallFailedError as error:
            raise _request_error(error) from None
        self.seconds += time.perf_counter() - started
        return {
            tensor.name: raw_to_array(raw, DATATYPES[tensor.datatype], tensor.shape, f"output '{tensor.name}'")
            for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True)
        }

    @property
    def _datatypes(self) -> dict[str, str]:
        signature = self._endpoint.signature
        return {rule.name: rule.datatype.name for rule in (*signature.inputs, *signature.optional_inputs)}

    async def _answered(self, request: pb.ModelInferRequest) -> pb.ModelInferResponse:
        return await self._infer(request)


def _request_error(error: CallFailedError) -> Exception:
    """Returns the error of a request for code that knows our errors; the sentence stays."""
    code = error.status.code
    if code is grpc.StatusCode.INTERNAL:
        return error  # it is in the log already
    return (UnavailableError if code in _PASSING else InvalidRequestError)(error.status.details)

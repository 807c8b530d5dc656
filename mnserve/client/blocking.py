"""Synchronous client of the Open Inference Protocol, over the generated gRPC code of this package.

The commands of this package use it; any other client of the protocol works with the server as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, TypeVar, cast

import grpc
import numpy as np

from mnserve.client.channels import DEFAULT_PORT, open_channel, parse_address, token_metadata
from mnserve.client.errors import translate
from mnserve.client.settings import ConnectionSettings
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.tensors import array_to_raw, contents_to_array, raw_to_array
from mnserve.errors import ClientError, InvalidRequestError, SettingsError
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub

Array = np.ndarray[Any, Any]
Request = TypeVar("Request", contravariant=True)
Response = TypeVar("Response", covariant=True)

_NAME_BY_DTYPE = {datatype.dtype: name for name, datatype in DATATYPES.items() if name not in ("BF16", "BYTES")}


class _Call(Protocol[Request, Response]):
    """A call of the protocol, as the generated code has it."""

    def __call__(
        self, request: Request, /, *, timeout: float | None = None, metadata: tuple[tuple[str, str], ...] | None = None
    ) -> Response: ...


class Client:
    """Calls one server; a context manager that closes its connection.

    Calls may be made from several threads at once. The first call opens the connection, which is restored after an
    interruption.

    Args:
        url: ``HOST:PORT`` or ``grpc://HOST:PORT``, ``grpcs://HOST:PORT`` for TLS; the default port is 8001.
        timeout: Seconds to wait for each answer.
        connection: Certificates and token; None for a plain connection without a token.

    Raises:
        SettingsError: ``url`` or ``timeout`` cannot be used, or a token would be sent as plain text.
        CredentialsError: A file that ``connection`` names cannot be used.
    """

    def __init__(
        self,
        url: str = f"127.0.0.1:{DEFAULT_PORT}",
        timeout: float = 60.0,
        connection: ConnectionSettings | None = None,
    ) -> None:
        if not (math.isfinite(timeout) and timeout > 0):
            raise SettingsError(f"timeout is {timeout}; it must be a number of seconds above 0")
        address = parse_address(url)
        self.url = address.target
        self.timeout = timeout
        self._metadata = () if connection is None else token_metadata(address, connection)
        self._channel = open_channel(address, connection or ConnectionSettings())
        self._stub = GRPCInferenceServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; no call may follow."""
        self._channel.close()

    def server_live(self) -> bool:
        """Returns True if the server process answers."""
        return self._call(self._stub.ServerLive, pb.ServerLiveRequest()).live

    def server_ready(self) -> bool:
        """Returns True if the server is ready for requests."""
        return self._call(self._stub.ServerReady, pb.ServerReadyRequest()).ready

    def model_ready(self, model: str, version: str = "") -> bool:
        """Returns True if a model is ready; an empty ``version`` is the default one."""
        request = pb.ModelReadyRequest(name=model, version=version)
        return self._call(self._stub.ModelReady, request, model=model).ready

    def server_metadata(self) -> pb.ServerMetadataResponse:
        """Fetches name, version and extensions of the server."""
        return self._call(self._stub.ServerMetadata, pb.ServerMetadataRequest())

    def model_metadata(self, model: str, version: str = "") -> pb.ModelMetadataResponse:
        """Fetches versions, inputs and outputs of a model; shapes include the batch as -1."""
        request = pb.ModelMetadataRequest(name=model, version=version)
        return self._call(self._stub.ModelMetadata, request, model=model)

    def model_config(self, model: str, version: str = "") -> ModelConfig:
        """Fetches the configuration of a model as the server completed it."""
        request = pb.ModelConfigRequest(name=model, version=version)
        return self._call(self._stub.ModelConfig, request, model=model).config

    def model_names(self) -> list[str]:
        """Fetches the sorted names of the server's models; empty where the server offers no list of them."""
        try:
            index = self._send(self._stub.RepositoryIndex, pb.RepositoryIndexRequest())
            return sorted({model.name for model in index.models})
        except grpc.RpcError:
            pass  # switched off or not built; the statistics name the loaded models at least
        try:
            statistics = self._send(self._stub.ModelStatistics, pb.ModelStatisticsRequest())
            return sorted({model.name for model in statistics.model_stats})
        except grpc.RpcError:
            return []

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] = (),
        *,
        version: str = "",
        datatypes: Mapping[str, str] | None = None,
    ) -> dict[str, Array]:
        """Runs the model on one batch.

        Args:
            model: Name of the model.
            inputs: Input name -> array with the batch dimension; BYTES are object arrays of bytes.
            outputs: Outputs to fetch; all where empty.
            version: Version of the model; empty for the default one.
            datatypes: Input name -> protocol type, where the dtype is ambiguous (BF16, held as uint16 bit patterns).

        Returns:
            Output name -> array, possibly read-only.

        Raises:
            ClientError: The server gave no usable answer; subclass and message have the reason.
        """
        request = pb.ModelInferRequest(model_name=model, model_version=version)
        for name, array in inputs.items():
            datatype = (datatypes or {}).get(name) or _datatype(name, array)
            request.inputs.add(name=name, datatype=datatype, shape=array.shape)
            request.raw_input_contents.append(array_to_raw(array, DATATYPES[datatype]))
        for name in outputs:
            request.outputs.add(name=name)
        response = self._call(self._stub.ModelInfer, request, model=model)
        return self._arrays(response)

    def _arrays(self, response: pb.ModelInferResponse) -> dict[str, Array]:
        raw = response.raw_output_contents
        if raw and len(raw) != len(response.outputs):
            raise ClientError(
                f"the server at {self.url} answered {len(response.outputs)} outputs with {len(raw)} raw "
                "contents; one for each is expected"
            )
        arrays: dict[str, Array] = {}
        for index, tensor in enumerate(response.outputs):
            what = f"output '{tensor.name}' of the server at {self.url}"
            if tensor.datatype not in DATATYPES or any(size < 0 for size in tensor.shape):
                raise ClientError(
                    f"{what} has datatype '{tensor.datatype}' and shape {list(tensor.shape)}; neither "
                    "an unknown type nor a negative size can be read"
                )
            datatype = DATATYPES[tensor.datatype]
            try:
                if raw:
                    arrays[tensor.name] = raw_to_array(raw[index], datatype, tensor.shape, what)
                else:
                    arrays[tensor.name] = contents_to_array(tensor.contents, datatype, tensor.shape, what)
            except InvalidRequestError as error:
                raise ClientError(str(error)) from error
        return arrays

    def _send(self, call: _Call[Request, Response], request: Request) -> Response:
        return call(request, timeout=self.timeout, metadata=self._metadata)

    def _call(self, call: _Call[Request, Response], request: Request, *, model: str | None = None) -> Response:
        try:
            return self._send(call, request)
        except grpc.RpcError as error:
            self._fail(error, model)

    def _fail(self, error: grpc.RpcError, model: str | None) -> NoReturn:
        call = cast("grpc.Call", error)  # the error of a stub is the call itself
        known = self.model_names() if call.code() == grpc.StatusCode.NOT_FOUND else []
        raise translate(call, url=self.url, timeout=self.timeout, model=model, known=known) from error


def _datatype(name: str, array: Array) -> str:
    if array.dtype.kind in "OSU":
        return "BYTES"
    datatype = _NAME_BY_DTYPE.get(array.dtype.newbyteorder("<"))
    if datatype is None:
        raise SettingsError(f"input '{name}' has the dtype {array.dtype}, which the protocol cannot carry")
    return datatype

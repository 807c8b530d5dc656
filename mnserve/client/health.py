"""Health of a server, asked for over gRPC."""

from __future__ import annotations

import sys
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.client.channels import open_channel, parse_address
from mnserve.client.errors import translate
from mnserve.client.health_settings import HealthSettings
from mnserve.text.names import printable


def print_health(settings: HealthSettings) -> int:
    """Prints the state of a service: ``SERVING``, or another word of the health service.

    Returns:
        0 for ``SERVING``, otherwise 1.

    Raises:
        ClientError: The server gives no usable answer, or has no such service.
        CredentialsError: A file of the connection cannot be used.
        SettingsError: The address cannot be used.
    """
    state = ask_health(settings)
    sys.stdout.write(f"{state}\n")
    return 0 if state == "SERVING" else 1


def ask_health(settings: HealthSettings) -> str:
    """Asks for the state of a service; returns the name of the state.

    Raises:
        ClientError: The server gives no usable answer, or has no such service.
        CredentialsError: A file of the connection cannot be used.
        SettingsError: The address cannot be used.
    """
    address = parse_address(settings.url)
    with open_channel(address, settings.connection) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=settings.service)
        try:
            response = stub.Check(request, timeout=settings.timeout)
        except grpc.RpcError as error:
            call = cast("grpc.Call", error)  # the error of a stub is the call itself
            raise translate(call, url=address.target, timeout=settings.timeout) from error
    names = health_pb2.HealthCheckResponse.ServingStatus
    try:
        return str(names.Name(response.status))
    except ValueError:  # a state of a later version of the protocol
        return printable(str(response.status))

"""Model that a message names, without the parsing of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from mnserve.distributed.calls import HEALTH_CHECK
from mnserve.protocol import service_pb2 as pb

_FIRST_FIELD: Final = 0x0A
"""Tag of field 1 with a length: the name in every message here, which encoders write first."""

NAME_FIELDS: Final[Mapping[str, tuple[Any, str]]] = MappingProxyType(
    {
        "ModelReady": (pb.ModelReadyRequest, "name"),
        "ModelMetadata": (pb.ModelMetadataRequest, "name"),
        "ModelConfig": (pb.ModelConfigRequest, "name"),
        "ModelStatistics": (pb.ModelStatisticsRequest, "name"),
        HEALTH_CHECK: (health_pb2.HealthCheckRequest, "service"),
    }
)
"""Call -> its message, and the field of it that names the model."""


def first_name(data: bytes) -> str | None:
    """Reads the name of a model where a request of inference begins with it; None where it has to be parsed."""
    if len(data) < 2 or data[0] != _FIRST_FIELD or data[1] >= 0x80 or len(data) < 2 + data[1]:
        return None
    try:
        return data[2 : 2 + data[1]].decode()
    except UnicodeDecodeError:
        return None


def named_model(call: str, data: bytes) -> str | None:
    """Reads the name of a model from a message.

    Args:
        call: Name of the call, which brings no tensors.
        data: Its message.

    Returns:
        The name; None where the message is none, or names nothing.
    """
    message, field = NAME_FIELDS[call]
    try:
        name: str = getattr(message.FromString(data), field)
    except DecodeError:
        return None
    return name or None

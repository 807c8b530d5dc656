"""Names of the calls that Ray Serve's gRPC proxies take for us.

A proxy asks a replica for the method with the last part of the name. It hands the message over as bytes: the replica
parses it, under the same limits as a server of its own.
"""

from __future__ import annotations

from typing import Final

from mnserve.protocol import service_pb2

PROTOCOL: Final[str] = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
STREAM: Final = "ModelStreamInfer"
UNARY: Final[tuple[str, ...]] = tuple(
    method.name
    for method in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    if method.name != STREAM
)
"""Calls of the protocol with one message each way."""
HEALTH: Final = "grpc.health.v1.Health"
HEALTH_CHECK: Final = "Check"
REPLICAS: Final = "mnserve.Replicas"
"""Service that lists the replicas; its messages are JSON."""
LIST: Final = "ListReplicas"

OWN_STATUS: Final = "mnserve-status"
"""Key of the metadata by which a proxy knows a status of ours from one of Ray Serve; callers do not get it."""

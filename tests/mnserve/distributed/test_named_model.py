"""Model that a message names."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2

from mnserve.distributed.named_model import named_model
from mnserve.protocol import service_pb2 as pb


@pytest.mark.parametrize("name", ["a", "ü" * 30, "long" * 50])
def test_the_name_is_read_however_long(name: str) -> None:
    request = pb.ModelInferRequest(model_name=name, id="1", raw_input_contents=[b"x" * 1000])
    assert named_model("ModelInfer", request.SerializeToString()) == name


def test_the_name_may_come_later() -> None:
    later = pb.ModelInferRequest(id="1").SerializeToString() + pb.ModelInferRequest(model_name="a").SerializeToString()
    assert named_model("ModelInfer", later) == "a"


def test_other_messages_name_a_model_too() -> None:
    assert named_model("ModelReady", pb.ModelReadyRequest(name="a").SerializeToString()) == "a"
    assert named_model("Check", health_pb2.HealthCheckRequest(service="a").SerializeToString()) == "a"
    assert named_model("ModelStatistics", b"") is None


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a", b"\x0a\x02\xff\xff", b""])
def test_what_is_no_message_names_nothing(data: bytes) -> None:
    assert named_model("ModelInfer", data) is None

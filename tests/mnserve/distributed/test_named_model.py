"""Model that a message names."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2

from mnserve.distributed.named_model import first_name, named_model
from mnserve.protocol import service_pb2 as pb


@pytest.mark.parametrize("name", ["a", "ü" * 30, "b" * 127])
def test_the_name_at_the_beginning_needs_no_parsing(name: str) -> None:
    request = pb.ModelInferRequest(model_name=name, id="1", raw_input_contents=[b"x" * 1000])
    assert first_name(request.SerializeToString()) == name


def test_a_name_elsewhere_is_left_to_the_parser() -> None:
    later = pb.ModelInferRequest(id="1").SerializeToString() + pb.ModelInferRequest(model_name="a").SerializeToString()
    assert first_name(later) is None
    assert first_name(pb.ModelInferRequest(model_name="long" * 50).SerializeToString()) is None


def test_other_messages_name_a_model_too() -> None:
    assert named_model("ModelReady", pb.ModelReadyRequest(name="a").SerializeToString()) == "a"
    assert named_model("Check", health_pb2.HealthCheckRequest(service="a").SerializeToString()) == "a"
    assert named_model("ModelStatistics", b"") is None


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x0a", b"\x0a\x02\xff\xff", b"\x0a\x05ab", b""])
def test_what_is_no_message_names_nothing(data: bytes) -> None:
    assert first_name(data) is None
    assert named_model("ModelReady", data) is None

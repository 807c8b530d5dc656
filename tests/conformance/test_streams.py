"""ModelStreamInfer: answers in the order of the requests, and faults that end nothing but themselves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from open_inference import arrived, outputs_of, refused, request, rows
from tritonclient.grpc import service_pb2 as pb

PATIENCE = 60
FINAL = "triton_final_response"


def stream(stub: Any, messages: list[Any]) -> list[Any]:
    return list(stub.ModelStreamInfer(iter(messages), timeout=PATIENCE))


def test_answers_come_in_the_order_of_the_requests(stub: Any, slow: Callable[..., Any]) -> None:
    """The first takes longest, and the others go to other models."""
    messages = [slow(0.3, 7, id="0"), *(request("double", {"x": rows(n)}, id=str(n)) for n in range(1, 20))]
    answers = stream(stub, messages)
    assert [answer.error_message for answer in answers] == [""] * 20
    assert [answer.infer_response.id for answer in answers] == [str(number) for number in range(20)]
    found = [float(outputs_of(answer.infer_response)["y"][0, 0]) for answer in answers]
    assert found == pytest.approx([7, *(2 * number for number in range(1, 20))])


def test_a_fault_is_a_message_and_the_stream_goes_on(stub: Any) -> None:
    picky = {"x": rows(1), "turns": np.zeros((1, 1), "<i8"), "index": np.array([[9]], "<i8")}
    answers = stream(
        stub,
        [
            request("double", id="good"),
            request("nothing", id="model"),
            request("double", {"other": rows(1)}, id="input"),
            request("picky", picky, id="engine"),
            request("double", id="sequence", parameters={"sequence_id": 1}),
            request("double", {"x": rows(4)}, id="last"),
        ],
    )
    assert [answer.infer_response.id for answer in answers] == ["good", "model", "input", "engine", "sequence", "last"]
    words = ["", "'nothing'", "'other'", "internal error", "sequence_id", ""]
    for answer, word in zip(answers, words, strict=True):
        assert word in answer.error_message
        assert bool(answer.error_message) is bool(word)
        assert bool(answer.infer_response.outputs) is not bool(word)
    assert outputs_of(answers[-1].infer_response)["y"].tolist() == [[8] * 4]


def test_an_empty_stream_ends(stub: Any) -> None:
    assert stream(stub, []) == []


def test_a_message_that_cannot_be_taken_apart_ends_the_stream(channel: Any) -> None:
    """Requests before the damaged message are answered."""
    call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
    answers = call(iter([request("double").SerializeToString(), b"\xff\xff\xff\xff"]), timeout=PATIENCE)
    first = pb.ModelStreamInferResponse.FromString(next(answers))
    assert outputs_of(first.infer_response)["y"].tolist() == [[2] * 4]
    with refused("INVALID_ARGUMENT"):
        next(answers)


def test_the_final_answer_is_marked_for_those_who_ask(stub: Any) -> None:
    asking, other = stream(
        stub, [request("double", parameters={"triton_enable_empty_final_response": True}), request("double")]
    )
    assert asking.infer_response.parameters[FINAL].bool_param
    assert FINAL not in other.infer_response.parameters
    assert outputs_of(asking.infer_response)["y"].tolist() == [[2] * 4]


def test_requests_of_a_stream_share_batches(stub: Any, slow: Callable[..., Any]) -> None:
    before = runs(stub)
    answers = stream(stub, [slow(0.5), *(slow(0, value) for value in range(8))])
    assert len(answers) == 9
    assert runs(stub) - before < 9


def test_streams_that_send_more_than_the_queue_takes_are_slowed_down_and_not_refused(stub: Any) -> None:
    """Together they have twice as many rows in work as may wait."""

    def ask(base: int) -> list[Any]:
        return stream(stub, [request("mix", {"x": np.full((8, 16), base + n, "<f4")}, id=str(n)) for n in range(300)])

    with ThreadPoolExecutor() as pool:
        for answers in pool.map(ask, (0, 1000, 2000)):
            assert {answer.error_message for answer in answers} == {""}
            assert [answer.infer_response.id for answer in answers] == [str(number) for number in range(300)]


def test_a_cancelled_stream_delays_no_other_call(stub: Any, slow: Callable[..., Any]) -> None:
    left = stub.ModelStreamInfer(iter([slow(0.3), slow(0, 2), slow(0, 3)]), timeout=PATIENCE)
    arrived(stub)
    left.cancel()
    assert outputs_of(stub.ModelInfer(slow(0, 4), timeout=PATIENCE))["y"][0, 0] == pytest.approx(4)


def runs(stub: Any) -> int:
    (found,) = stub.ModelStatistics(pb.ModelStatisticsRequest(name="slow")).model_stats
    return int(found.execution_count)

"""Requests that wait: full queues, deadlines, callers that leave, a failing batch-mate, everybody's own rows.

Durations are those of the model ``slow``, whose callers say how long it runs; nothing depends on an exact time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from open_inference import PUSHBACK, arrived, outputs_of, refused, request, rows, trailing

Slow = Callable[..., Any]
Statistics = Callable[[str], Any]
PATIENCE = 60
"""Seconds within which anything is answered on a machine with other work."""


def batches(after: Any, before: Any) -> dict[int, int]:
    """Rows of a batch -> how many such batches have run in between."""
    old = {item.batch_size: item.compute_infer.count for item in before.batch_stats}
    new = {item.batch_size: item.compute_infer.count for item in after.batch_stats}
    return {size: count - old.get(size, 0) for size, count in new.items() if count > old.get(size, 0)}


def value_of(call: Any) -> float:
    return float(outputs_of(call.result(PATIENCE))["y"][0, 0])


@pytest.fixture
def busy(stub: Any, slow: Slow) -> Any:
    """The engine of ``slow`` runs one request for about a second."""
    call = stub.ModelInfer.future(slow(1.0))
    arrived(stub)
    yield call
    call.result(PATIENCE)


def test_a_full_queue_is_unavailable_and_says_when_to_come_back(stub: Any, slow: Slow) -> None:
    """One runs, one may be on its way to the engine, two may wait; twelve come."""
    calls = [stub.ModelInfer.future(slow(0.25, value, model="small")) for value in range(1, 13)]
    answered, full = [], []
    for value, call in enumerate(calls, 1):
        if call.exception(PATIENCE) is None:
            assert value_of(call) == pytest.approx(value)
            answered.append(value)
        else:
            full.append(call)
    assert len(answered) >= 3
    assert len(full) >= 4
    for call in full:
        assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert "'small'" in call.details()
        assert int(trailing(call)[PUSHBACK]) > 0
    assert value_of(stub.ModelInfer.future(slow(0, 5, model="small"))) == pytest.approx(5)


def test_waiting_longer_than_the_policy_allows_is_unavailable(stub: Any, slow: Slow) -> None:
    running = stub.ModelInfer.future(slow(1.0, 1, model="hasty"))
    arrived(stub)
    ahead = stub.ModelInfer.future(slow(0, 2, model="hasty"))  # it may be on its way to the engine already
    arrived(stub)
    with refused("UNAVAILABLE", "'hasty'", "timeout expired") as refusal:
        stub.ModelInfer(slow(0, 3, model="hasty"), timeout=PATIENCE)
    assert refusal.pushback is not None
    assert not running.done()  # it was told at once
    assert value_of(running) == pytest.approx(1)
    assert ahead.exception(PATIENCE) is None or ahead.code() is grpc.StatusCode.UNAVAILABLE


def test_a_request_whose_timeout_passes_in_the_queue_is_refused_and_dropped(
    stub: Any, slow: Slow, busy: Any, statistics: Statistics
) -> None:
    """The parameter ``timeout`` (microseconds) is the server's to keep: it answers on time, and drops the work."""
    before = statistics("slow")
    with refused("DEADLINE_EXCEEDED", "'slow'"):
        stub.ModelInfer(slow(0, parameters={"timeout": 50_000}), timeout=PATIENCE)
    assert not busy.done()  # a busy engine held nothing up
    busy.result(PATIENCE)
    assert value_of(stub.ModelInfer.future(slow(0, 3))) == pytest.approx(3)
    after = statistics("slow")
    assert batches(after, before) == {1: 2}  # the busy one and the last
    assert after.inference_stats.fail.count - before.inference_stats.fail.count == 1


def test_a_deadline_of_the_call_drops_the_work(stub: Any, slow: Slow, busy: Any, statistics: Statistics) -> None:
    before = statistics("slow")
    with refused("DEADLINE_EXCEEDED"):
        stub.ModelInfer(slow(0), timeout=0.05)
    assert not busy.done()
    busy.result(PATIENCE)
    assert value_of(stub.ModelInfer.future(slow(0, 3))) == pytest.approx(3)
    assert batches(statistics("slow"), before) == {1: 2}


def test_requests_whose_deadline_passes_in_the_queue_are_never_executed(
    stub: Any, slow: Slow, busy: Any, statistics: Statistics
) -> None:
    """Six of either kind of deadline wait among four that have time; the counters tell every row that ran."""
    before = statistics("slow")
    late = [stub.ModelInfer.future(slow(0, parameters={"timeout": 50_000}), timeout=PATIENCE) for _ in range(6)]
    late += [stub.ModelInfer.future(slow(0), timeout=0.1) for _ in range(6)]
    patient = [stub.ModelInfer.future(slow(0, value), timeout=PATIENCE) for value in (1, 2, 3, 4)]
    for call in late:
        assert call.exception(PATIENCE) is not None
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert not busy.done()  # so all of them were in the queue
    busy.result(PATIENCE)
    assert [value_of(call) for call in patient] == pytest.approx([1, 2, 3, 4])
    after = statistics("slow")
    assert after.inference_count - before.inference_count == 5  # the busy one and the patient
    assert sum(size * count for size, count in batches(after, before).items()) == 5
    assert after.inference_stats.success.count - before.inference_stats.success.count == 5


def test_a_cancelled_call_is_dropped_and_its_batch_mates_are_answered(
    stub: Any, slow: Slow, busy: Any, statistics: Statistics
) -> None:
    before = statistics("slow")
    calls = [stub.ModelInfer.future(slow(0, value)) for value in (1, 2, 3)]
    arrived(stub)
    calls[1].cancel()
    assert calls[1].code() is grpc.StatusCode.CANCELLED
    arrived(stub)
    assert not busy.done()
    assert [value_of(calls[0]), value_of(calls[2])] == pytest.approx([1, 3])
    assert batches(statistics("slow"), before) == {1: 1, 2: 1}  # the busy one, and two mates together


def test_a_call_cancelled_during_its_batch_leaves_others_answered(stub: Any, slow: Slow) -> None:
    leaving = stub.ModelInfer.future(slow(0.4, 1))
    arrived(stub)
    mate = stub.ModelInfer.future(slow(0, 2))
    leaving.cancel()
    assert value_of(mate) == pytest.approx(2)
    assert value_of(stub.ModelInfer.future(slow(0, 3))) == pytest.approx(3)


def test_one_bad_item_does_not_fail_its_batch_mates(stub: Any, slow: Slow, statistics: Statistics) -> None:
    """Three requests wait for one engine and fit one batch; the middle one fails."""

    def ask(seconds: float, index: int) -> Any:
        tensors = {"index": np.array([[index]], dtype="<i8")}
        return stub.ModelInfer.future(slow(seconds, model="picky", tensors=tensors))

    first = ask(0.6, 0)
    arrived(stub)
    calls = [ask(0, index) for index in (0, 9, 1)]
    arrived(stub)
    assert not first.done()
    assert [outputs_of(call.result(PATIENCE))["value"].item() for call in (calls[0], calls[2])] == [1, 2]
    assert calls[1].exception(PATIENCE) is not None
    assert calls[1].code() is grpc.StatusCode.INTERNAL
    assert first.result(PATIENCE)
    assert outputs_of(ask(0, 1).result(PATIENCE))["value"].item() == 2


def test_every_caller_gets_its_own_rows(stub: Any, statistics: Statistics) -> None:
    """Many callers send requests of several sizes and shapes; the values of a swapped row name its owner."""

    def call(number: int) -> int:
        size, width = number % 5 + 1, number % 3 + 1
        x = 100 * number + np.arange(size * width, dtype="<f4").reshape(size, width)
        got = outputs_of(stub.ModelInfer(request("wide", {"x": x}), timeout=PATIENCE))["y"]
        np.testing.assert_array_equal(got, np.concatenate([x, x], axis=1))
        return size

    before = statistics("wide")
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(call, range(300)))
    after = statistics("wide")
    assert after.inference_count - before.inference_count == sum(sizes)
    assert after.inference_stats.success.count - before.inference_stats.success.count == 300


def test_a_row_alone_is_answered_as_in_a_batch(stub: Any) -> None:
    x = np.random.default_rng(1).normal(size=(8, 16)).astype("<f4")
    together = outputs_of(stub.ModelInfer(request("mix", {"x": x})))["y"]
    alone = [outputs_of(stub.ModelInfer(request("mix", {"x": x[i : i + 1]})))["y"][0] for i in range(8)]
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-7)


def test_batched_calls_get_the_answers_of_single_calls(
    stub: Any, slow: Slow, busy: Any, statistics: Statistics
) -> None:
    """One of them has by far the largest number."""
    before, values = statistics("slow"), [1.0, 1e6, -3.0, 0.25]
    calls = [stub.ModelInfer.future(slow(0, value)) for value in values]
    assert [value_of(call) for call in calls] == pytest.approx(values)
    busy.result(PATIENCE)
    assert max(batches(statistics("slow"), before)) > 1


def test_rows_of_one_request_keep_their_order(stub: Any) -> None:
    y = outputs_of(stub.ModelInfer(request("double", {"x": rows(*range(8))})))["y"]
    assert y[:, 0].tolist() == [2 * value for value in range(8)]

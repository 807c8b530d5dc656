"""The mirror of the catalogue in a front end, and what becomes of requests while engine processes come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.errors import (
    DeadlineExceededError,
    EngineLostError,
    ModelNotReadyError,
    StaleEndpointError,
    StoppingError,
    UnknownModelError,
)
from mnserve.execution.results import NO_TIMES, InferenceResult
from mnserve.models.statistics import ModelCounters
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.remote import endpoint as endpoint_module
from mnserve.remote.engines import RemoteEngines
from mnserve.remote.models import RemoteModels
from mnserve.remote.records import ModelRecord, VersionRecord
from mnserve.shared_catalogue.catalogue_message import version_message

RULE = TensorRule(name="x", datatype=DATATYPES["FP32"], dims=(2,))
SIGNATURE = RequestSignature(model="m", max_batch_size=4, inputs=(RULE,), outputs=(replace(RULE, name="y"),))
CONFIG = ModelConfig(name="m", max_batch_size=4)


class Link:
    """Answers at once, or as told."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.closed, self.outstanding = False, 0
        self.outcomes = list(outcomes)
        self.endpoints: list[int] = []

    async def infer(self, endpoint: int, work: Any, limits: Any, on_admitted: Any = None) -> InferenceResult:
        self.endpoints.append(endpoint)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        await asyncio.sleep(0)
        if outcome is not None:
            self.closed = isinstance(outcome, EngineLostError)
            raise outcome
        return InferenceResult([np.zeros(1)], 0, NO_TIMES)


class Calls:
    """The authority; notes what it is asked for."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Mapping[str, Any]]] = []

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        self.made.append((method, arguments))
        return []


def version(
    places: Mapping[int, tuple[int, int]], reason: str = "", recovering: bool = False, batch: int = 4
) -> VersionRecord:
    description = version_message(CONFIG, replace(SIGNATURE, max_batch_size=batch), QueueRules())
    return VersionRecord(
        version=1, slot=0, places=places, reason=reason, recovering=recovering, description=description
    )


def model(*versions: VersionRecord) -> ModelRecord:
    return ModelRecord.from_fields(ModelRecord(name="m", loaded=True, versions=versions).fields())


def mirror(on_change: Callable[[], None] = lambda: None) -> tuple[RemoteModels, RemoteEngines, Calls]:
    engines, calls = RemoteEngines(), Calls()

    def counters(name: str, number: int, slot: int) -> ModelCounters:
        return ModelCounters(name, number, lambda: 0)

    return RemoteModels(engines, calls, counters, on_change, empty_is_ready=False), engines, calls


WORK = InferenceWork(feeds={"x": np.zeros((1, 2), np.float32)}, rows=1, outputs=("y",))
LOST = EngineLostError("gone")


async def test_what_an_engine_process_describes_is_found() -> None:
    models, engines, calls = mirror()
    ready = [models.ready]
    models.apply([model(version({0: (1, 7)}))])
    ready.append(models.ready)
    found = models.find("m")
    assert ready == [False, True]
    assert found.signature == SIGNATURE
    assert found.config == CONFIG
    link = Link()
    engines.connect(0, 1, link)
    await found.infer(WORK)
    assert link.endpoints == [7]
    with pytest.raises(UnknownModelError, match="'z'"):
        models.find("z")
    await models.load("m", ModelConfig(name="m"))
    await models.unload("m")
    assert [method for method, _ in calls.made] == ["load", "unload"]
    models.apply([], gone=["m"])
    assert not models.ready
    assert await models.statistics() == []


async def test_readiness_tells_the_truth_while_requests_wait_for_an_engine_process() -> None:
    models, engines, _ = mirror()
    engines.connect(0, 1, Link(LOST))
    models.apply([model(version({0: (1, 7)}))])
    found = models.find("m")
    waiting = asyncio.ensure_future(found.infer(WORK))
    await asyncio.sleep(0.01)
    engines.lost(0, 1, frozenset({"other"}))
    models.apply([model(version({}, reason="its engine process is started again", recovering=True))])
    assert not models.is_ready("m")
    assert not models.ready
    assert models.find("m") is found  # new requests wait as well
    await asyncio.sleep(0.01)
    assert not waiting.done()
    link = Link()
    engines.connect(0, 2, link)
    await asyncio.sleep(0.01)
    assert not waiting.done()  # the number of the version is that of the process before
    models.apply([model(version({0: (2, 9)}))])
    await waiting
    assert link.endpoints == [9]
    assert models.find("m") is found  # forms of requests are kept
    assert models.ready


async def test_news_of_other_models_do_not_end_a_wait_for_the_place_of_a_version() -> None:
    models, engines, _ = mirror()
    link = Link(StaleEndpointError("not served any more"))
    engines.connect(0, 1, link)
    models.apply([model(version({0: (1, 7)}))])
    waiting = asyncio.ensure_future(models.find("m").infer(WORK))
    await asyncio.sleep(0.01)
    models.apply([ModelRecord(name="other", loaded=True)])
    await asyncio.sleep(0.01)
    models.apply([model(version({0: (1, 8)}))])
    await waiting
    assert link.endpoints == [7, 8]


async def test_requests_to_the_model_that_ran_fail_with_the_engine_process() -> None:
    models, engines, _ = mirror()
    engines.connect(0, 1, Link(LOST))
    models.apply([model(version({0: (1, 7)}))])
    waiting = asyncio.ensure_future(models.find("m").infer(WORK))
    await asyncio.sleep(0.01)
    engines.lost(0, 1, frozenset({"m"}))
    with pytest.raises(ModelNotReadyError, match="ended while it ran the model"):
        await waiting


async def test_requests_go_on_to_another_engine_process_and_to_the_least_busy_one() -> None:
    models, engines, _ = mirror()
    first, second = Link(LOST), Link()
    second.outstanding = 1
    engines.connect(0, 1, first)
    engines.connect(1, 1, second)
    models.apply([model(version({0: (1, 7), 1: (1, 3)}))])
    waiting = asyncio.ensure_future(models.find("m").infer(WORK))
    await asyncio.sleep(0.01)
    engines.lost(0, 1, frozenset())
    await waiting
    assert (first.endpoints, second.endpoints) == ([7], [3])


async def test_a_request_follows_its_model_to_the_version_that_took_its_place() -> None:
    models, engines, _ = mirror()
    link = Link(StaleEndpointError("old"), StaleEndpointError("old"))
    engines.connect(0, 1, link)
    models.apply([model(version({0: (1, 7)}))])
    found = models.find("m")
    waiting = asyncio.ensure_future(found.infer(WORK))
    await asyncio.sleep(0.01)
    models.apply([model(version({0: (1, 8)}))])
    await asyncio.sleep(0.01)
    assert link.endpoints == [7, 8]
    models.apply([model(version({0: (1, 9)}, batch=2))])  # other files: rpc looks the model up again
    with pytest.raises(StoppingError):
        await waiting
    assert models.find("m") is not found


async def test_a_request_that_the_old_version_refuses_goes_to_the_new_one() -> None:
    models, engines, _ = mirror()
    link = Link(StoppingError("model 'm' is stopping"))
    engines.connect(0, 1, link)
    models.apply([model(version({0: (1, 7)}))])
    waiting = asyncio.ensure_future(models.find("m").infer(WORK))
    await asyncio.sleep(0.01)
    models.apply([model(version({0: (1, 8)}))])
    await waiting
    assert link.endpoints == [7, 8]


async def test_waiting_for_an_engine_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    models, _, _ = mirror()
    models.apply([model(version({}, reason="its engine process is started again", recovering=True))])
    found = models.find("m")
    loop = asyncio.get_running_loop()
    with pytest.raises(DeadlineExceededError):
        await found.infer(WORK, RequestLimits(deadline=loop.time() + 0.01))
    monkeypatch.setattr(endpoint_module, "RECOVERY_SECONDS", 0.01)
    with pytest.raises(ModelNotReadyError, match="started again; try again later"):
        await found.infer(WORK)
    waiting = asyncio.ensure_future(found.infer(WORK))
    await asyncio.sleep(0)
    models.apply([model(version({}, reason="it was being loaded when its engine process ended"))])
    with pytest.raises(ModelNotReadyError, match="was being loaded"):
        await waiting


async def test_statistics_of_unknown_models_are_refused_without_asking() -> None:
    models, _, calls = mirror()
    with pytest.raises(UnknownModelError):
        await models.statistics("m")
    assert calls.made == []
    assert pb.ModelStatistics().name == ""

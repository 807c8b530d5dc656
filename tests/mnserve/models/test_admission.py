"""Requests that are admitted without a task, by a model whose answers are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import EngineOptions
from mnserve.execution.results import InferenceResult
from mnserve.models.load_options import LoadOptions
from mnserve.models.registry import Models
from mnserve.models.response_cache import ResponseCache


async def test_an_equal_request_gets_the_kept_answer_at_once(
    repository: Path, double_model: Callable[..., Path]
) -> None:
    double_model("m", config="response_cache { enable: true }")
    options = LoadOptions(engine=EngineOptions(intra_op_threads=1), cache=ResponseCache(2**20))
    models = Models(repository, options, lambda: None)
    await models.load_all()
    served = models.find("m")
    work = InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",))
    results: list[InferenceResult] = []

    def reply() -> asyncio.Future[InferenceResult]:
        return asyncio.get_running_loop().create_future()

    first = reply()
    request = served.admit(work, RequestLimits(), first)
    assert request is not None
    results.append(await first)
    again, later = reply(), reply()
    assert served.admit(work, RequestLimits(), again) is None
    assert again.done()
    assert await served.admit_later(work, RequestLimits(), later, None) is None
    results += [again.result(), later.result()]
    assert [(result.kept, result.arrays[0].tolist()) for result in results] == [
        (False, [[2.0] * 4]),
        (True, [[2.0] * 4]),
        (True, [[2.0] * 4]),
    ]
    assert min(result.lookup_ns for result in results) > 0

    other = InferenceWork(feeds={"x": np.zeros((1, 4), np.float32)}, rows=1, outputs=("y",))
    admitted: list[int] = []
    streamed, dropped = reply(), reply()
    assert await served.admit_later(other, RequestLimits(), streamed, admitted.append) is not None
    assert admitted == [16]
    assert (await streamed).arrays[0].tolist() == [[0.0] * 4]
    other.feeds["x"][:] = 3
    withdrawn = served.admit(other, RequestLimits(), dropped)
    assert withdrawn is not None
    served.withdraw(withdrawn)
    await models.drain(20)
    assert not dropped.done()

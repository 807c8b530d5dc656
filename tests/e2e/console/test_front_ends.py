"""The console of a server whose calls are taken in by several processes: each tells what all have counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx


def test_every_front_end_tells_the_same(models: Path, start_console: Callable[..., Any]) -> None:
    options = ("--front-ends", "2", "--model-control", "explicit", "--load-model", "double")
    server = start_console(models, *options)
    starts = set()
    body = {"model": "double", "tensors": {"x": [[1, 2, 3]] * 2}}
    for count in range(1, 9):
        with httpx.Client(base_url=f"{server.http}/console/api", timeout=60) as page:  # a connection of its own
            answer = page.post("predict", json=body).json()
            assert answer["results"][0]["values"] == [2.0, 4.0, 6.0] * 2
        with httpx.Client(base_url=f"{server.http}/console/api", timeout=60) as page:
            status = page.get("status").json()
            starts.add(status["start"])
            (counters,) = status["counters"]
            assert (counters["answered"], counters["rows"], counters["batches"]) == (count, 2 * count, [[2, count]])
            assert sum(requests for _, requests in counters["latencies"]) == count
    assert len(starts) == 1
    with httpx.Client(base_url=f"{server.http}/console/api", timeout=60) as page:
        assert page.post("models/double/unload", json={}).status_code == 200
    for _ in range(4):
        with httpx.Client(base_url=f"{server.http}/console/api", timeout=60) as page:
            assert page.get("status").json()["counters"] == []
    server.close()
    again = start_console(models, *options)
    with httpx.Client(base_url=f"{again.http}/console/api", timeout=60) as page:
        assert page.get("status").json()["start"] not in starts

"""Small choices: how many front ends, which CPUs, how long to wait, and settings that come back as they were."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mnserve.access.settings import SecuritySettings
from mnserve.processes.ending import ending
from mnserve.processes.engine_shares import engine_shares
from mnserve.processes.front_end_count import count_for, first_count
from mnserve.processes.restarts import Restarts
from mnserve.processes.settings_message import settings_from_message, settings_message
from mnserve.settings import ServeSettings


def test_front_ends_follow_cpus_and_what_the_models_can_answer() -> None:
    assert [first_count(cpus) for cpus in (1, 2, 4, 64)] == [0, 1, 2, 8]
    assert [first_count(cpus, engine_processes=2) for cpus in (1, 2, 4)] == [1, 1, 2]
    assert count_for(1, 90_000) == 1
    assert [count_for(2, rows) for rows in (0, 750, 2_600, 90_000)] == [1, 1, 2, 2]
    assert [count_for(32, rows) for rows in (0, 750, 12_000, 90_000)] == [8, 1, 5, 8]


def test_engine_processes_share_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3, 5, 7})
    assert [[share.cpus for share in engine_shares(count)] for count in (1, 2, 6)] == [
        [()],
        [(0, 2), (3, 5, 7)],
        [()] * 6,
    ]


def test_each_of_several_gpus_has_an_engine_process() -> None:
    assert [share.device for share in engine_shares(1, (0, 1, 2))] == [0, 1, 2]
    assert [share.device for share in engine_shares(3, (0, 1))] == [0, 1, 0]
    assert {(share.devices, share.cpus) for share in engine_shares(1, (0, 1))} == {((0, 1), ())}
    assert [share.device for share in engine_shares(1, (4,))] == [None]


def test_restarts_wait_longer_from_death_to_death_and_forget_after_a_calm_minute() -> None:
    now = 0.0
    restarts = Restarts(lambda: now)
    assert [restarts.wait() for _ in range(10)] == [0.0, 0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    restarts.started()
    now = 61
    assert [restarts.wait() for _ in range(2)] == [0.0, 0.0]


def test_endings_are_told_in_words() -> None:
    assert (ending(-11), ending(3)) == ("by SIGSEGV", "with exit code 3")


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    settings = ServeSettings(
        repository=str(tmp_path),
        model_control="explicit",
        load_model=("a", "b"),
        security=SecuritySettings(token_file="tokens"),
        cache_bytes=5,
    )
    message = json.loads(json.dumps(settings_message(settings)))
    assert settings_from_message(ServeSettings, message) == settings

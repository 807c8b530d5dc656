"""Threads of an engine: what the server says, what the model asks for, and what is left to the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format

from mnserve.engines import thread_count as engine_threads
from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.engines.thread_count import configured_threads, instance_threads
from mnserve.errors import ModelConfigError
from mnserve.models.loading import LoadOptions, load
from mnserve.protocol.model_config_pb2 import ModelConfig


def asking(threads: object) -> ModelConfig:
    text = f'parameters {{ key: "intra_op_thread_count" value {{ string_value: "{threads}" }} }}'
    return text_format.Parse(text, ModelConfig(name="m"))


@pytest.mark.parametrize(
    ("config", "server", "instances", "threads"),
    [
        (ModelConfig(), 0, 1, 0),
        (ModelConfig(), 0, 3, 2),
        (ModelConfig(), 0, 9, 1),
        (ModelConfig(), 5, 3, 5),
        (asking(4), 0, 1, 4),
        (asking(4), 0, 3, 4),
        (asking(4), 5, 3, 5),
        (asking(0), 0, 3, 2),
    ],
)
def test_the_server_wins_over_the_model_and_the_model_over_the_share(
    config: ModelConfig, server: int, instances: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_threads, "available_cpus", lambda: 7)
    assert instance_threads(config, server, instances) == threads


def test_the_log_says_which_of_two_numbers_counts(caplog: pytest.LogCaptureFixture) -> None:
    instance_threads(asking(4), 4, 1)
    assert caplog.text == ""
    instance_threads(asking(4), 5, 1)
    assert "model 'm' runs with 5 threads, as --intra-op-threads says, and not with the 4" in caplog.text


@pytest.mark.parametrize("text", ["-1", "two", "", "1025", "1" * 5000, "١"])
def test_an_impossible_number_of_threads_is_refused(text: str) -> None:
    with pytest.raises(ModelConfigError, match=r"intra_op_thread_count is '.{,80}' in config\.pbtxt; it must be 0"):
        configured_threads(asking(text))


def test_engines_are_made_with_the_threads_that_the_model_asks_for(
    repository: Path, double_model: Callable[..., Path]
) -> None:
    text = 'max_batch_size: 4 parameters { key: "intra_op_thread_count" value { string_value: "3" } }'
    double_model("m", config=text)
    given: list[int] = []

    def factory(path: Path, options: EngineOptions) -> FakeEngine:
        given.append(options.intra_op_threads)
        return FakeEngine()

    load(repository, "m", 1, LoadOptions(factory=factory)).engine.close()
    load(repository, "m", 1, LoadOptions(factory=factory, engine=EngineOptions(intra_op_threads=2))).engine.close()
    assert given == [3, 2]

"""``mnserve tune`` with real servers: what is measured is what is written, and interruptions leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mnserve.client.blocking import Client
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.configuration import current_candidate

MAIN = "import sys; from mnserve.commands.cli import main; sys.exit(main())"
QUICK = ("--seconds", "0.05", "--repeats", "1", "--cpus", "1", "--callers", "1")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", "-c", MAIN, "tune", *QUICK, *map(str, arguments)]


def tune(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=150, check=False)


@pytest.fixture
def repository_of_two(tmp_path: Path, write_models: Callable[[Path], None]) -> Path:
    write_models(tmp_path / "repository")
    return tmp_path / "repository"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_chosen_configuration_is_written_and_served(
    repository_of_two: Path, tmp_path: Path, start_server: Callable[..., object]
) -> None:
    out = tmp_path / "tuning.json"
    config = repository_of_two / "double" / "config.pbtxt"
    # A single caller waits for the whole delay.
    threads = 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }'
    before = f"# mine\nmax_batch_size: 8 dynamic_batching {{ max_queue_delay_microseconds: 300000 }} {threads}\n"
    config.write_text(before)
    done = tune(repository_of_two, "double", "--latency-ms", 10_000, "--percentile", 50, "--json", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "double: p50 within 10000 ms" in done.stdout
    result = json.loads(out.read_text())
    assert {one["max_batch_size"] for one in result["measured"]} == {8}
    assert [one["delay_us"] for one in result["measured"]] == [300_000, 0]
    waiting, at_once = (one["loads"][0]["p50_ms"] for one in result["measured"])
    assert waiting > at_once
    chosen = Candidate(**result["chosen"])
    assert chosen == Candidate(max_batch_size=8, delay_us=0, instances=1, threads=1)
    assert config.with_name("config.pbtxt.before-tune").read_text() == before

    server = start_server(repository_of_two, "--intra-op-threads", "0")
    with Client(server.address) as client:
        assert current_candidate(client.model_config("double")) == chosen
        answer = client.infer("double", {"x": np.ones((4, 4), np.float32)})
        assert answer["y"].tolist() == [[2.0] * 4] * 4


def test_an_unreachable_latency_bound_exits_with_1_and_one_sentence(repository_of_two: Path) -> None:
    before = contents(repository_of_two)
    done = tune(repository_of_two, "double", "--latency-ms", 0.001)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert "no configuration keeps p99 within 0.001 ms; the lowest that was reached is" in sentence
    assert contents(repository_of_two) == before


def test_a_current_configuration_that_refuses_callers_exits_with_one_sentence(repository_of_two: Path) -> None:
    """The model loads, and its queue of one refuses three of four callers."""
    policy = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }"
    (repository_of_two / "slow" / "config.pbtxt").write_text(f"max_batch_size: 1 {policy}")
    before = contents(repository_of_two)
    done = tune(repository_of_two, "slow", "--latency-ms", 20, "--callers", 4)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert "what is configured now cannot be measured" in sentence
    assert "queue" in sentence
    assert contents(repository_of_two) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_stops_the_server_and_writes_nothing(
    repository_of_two: Path, tmp_path: Path, number: int, code: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = contents(repository_of_two)
    process = subprocess.Popen(
        command(repository_of_two, "double", "--latency-ms", 100),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.communicate()
        pytest.skip("the kernel does not list child processes")
    deadline = time.monotonic() + 60
    while not (servers := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said
    assert servers
    assert not [pid for pid in servers if Path(f"/proc/{pid}").exists()]
    assert list(scratch.glob("mnserve-*")) == []  # libraries may leave something of their own
    assert contents(repository_of_two) == before

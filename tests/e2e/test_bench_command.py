"""``mnserve bench`` as a process: the whole path through a server, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mnserve.bench.server_process import server_process
from mnserve.client.blocking import Client
from mnserve.errors import BenchError, RepositoryNotFoundError, ServerUnreachableError

MAIN = "import sys; from mnserve.commands.cli import main; sys.exit(main())"
QUICK = ("--seconds", "0.05", "--rounds", "2")


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", MAIN, "bench", *map(str, arguments), *QUICK]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory, write_colour_model) -> Path:
    path = tmp_path_factory.mktemp("repository")
    for name in ("mn", "vanilla"):
        write_colour_model(path, name, max_batch_size=8)
    return path


def test_the_whole_path_is_timed_on_a_server_of_its_own(twins: Path, tmp_path: Path) -> None:
    out, plot = tmp_path / "latency.json", tmp_path / "latency.png"
    done = bench(
        twins,
        "mn",
        "--against",
        "vanilla",
        "--batch",
        "1,8",
        "--grpc",
        "--concurrency",
        2,
        "--json",
        out,
        "--plot",
        plot,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress where there is no terminal
    assert "latency of mn against vanilla" in done.stdout
    assert "gRPC, 2 callers" in done.stdout
    result = json.loads(out.read_text())
    assert result["path"] == "gRPC, 2 callers"
    assert result["threads"] == 1
    assert [one["batch"] for one in result["results"]] == [1, 8]
    assert all(len(one["ratio"]["rounds"]) == 2 for one in result["results"])
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_running_server_can_be_timed(twins: Path) -> None:
    with server_process(twins, ["--intra-op-threads", "1"]) as url:
        done = bench(twins, "mn", "--grpc", "--url", url, "--json", "-")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["threads"] is None
        assert result["settings"]["url"] == url
        assert result["model"]["version"] == "1"
        assert "threads unknown" in done.stderr

        unknown = bench(twins, "mn", "--against", "gone", "--grpc", "--url", url)
        assert unknown.returncode == 1
        (sentence,) = unknown.stderr.splitlines()
        assert "gone" in sentence
        assert "vanilla" in sentence


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("gone",), 1, "has no model 'gone'; it has mn, vanilla"),
        (("mn", "--against", "mn"), 2, "MODEL and --against are both 'mn'"),
        (("mn", "--batch", "1,99"), 1, "batch 99 is more than model 'mn' takes: max_batch_size is 8"),
        (("mn", "--batch", "1;2"), 2, "--batch '1;2' is not a list of batch sizes"),
        (("mn", "--concurrency", "4"), 2, "--concurrency goes with --grpc"),
    ],
)
def test_models_that_cannot_be_timed_are_refused_in_one_sentence(
    twins: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = bench(twins, *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_server_of_a_measurement_ends_with_it(twins: Path) -> None:
    with server_process(twins, ["--intra-op-threads", "1"]) as url, Client(url) as client:
        assert client.server_ready()
    with Client(url) as client, pytest.raises(ServerUnreachableError):
        client.server_ready()


def test_a_terminated_measurement_leaves_no_server_behind(twins: Path) -> None:
    command = [sys.executable, "-c", MAIN, "bench", str(twins), "mn", "--grpc", "--seconds", "60"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        process.wait()
        pytest.skip("the kernel does not list child processes")
    deadline = time.monotonic() + 60
    while not (servers := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.terminate()
    assert process.wait(60) == 143
    assert servers
    assert not [pid for pid in servers if Path(f"/proc/{pid}").exists()]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(BenchError, match=r"ended with exit code 1 before it served: .*broken"):
        server_process(tmp_path, ["--intra-op-threads", "1"]).__enter__()
    with pytest.raises(RepositoryNotFoundError, match="does not exist"):
        server_process(tmp_path / "gone", ["--intra-op-threads", "1"]).__enter__()

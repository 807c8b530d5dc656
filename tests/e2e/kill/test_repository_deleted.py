"""The repository is deleted under a running server: loaded models answer, and loads are refused with the reason.

A repository that comes back is served again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]
ClosedLoops = Callable[[str], Any]
POLL = ("--model-control", "poll", "--poll-seconds", "0.1")
UNREADABLE = "the repository cannot be looked through, and what is served stays"


@pytest.fixture
def kept(root: Path) -> Path:
    """A copy of the repository, which nobody deletes."""
    shutil.rmtree(root / "broken")
    copy = root.parent / "kept"
    shutil.copytree(root, copy)
    return copy


@pytest.fixture
def serve(start_server: StartServer, root: Path, kept: Path) -> Iterator[Callable[..., tuple[Any, Any]]]:
    """Starts a server of the repository, and a client of NVIDIA's for it; in the end its log has no traceback."""
    opened: list[tuple[Any, Any]] = []

    def start(*arguments: str) -> tuple[Any, Any]:
        server = start_server(root, *arguments)
        opened.append((server, triton.InferenceServerClient(server.address)))
        return opened[-1]

    yield start
    for server, client in opened:
        client.close()
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.log()


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(InferenceServerException) as caught:
        call()
    return f"{caught.value.status()}: {caught.value.message()}".removeprefix("StatusCode.")


def more_answers(loop: Any, server: Any) -> None:
    before = loop.right
    server.wait_until(lambda: loop.right >= before + 50 or bool(loop.refusals))
    assert (loop.wrong, loop.refusals) == ([], [])


def test_models_of_a_deleted_repository_go_on_answering(serve: Any, root: Path, closed_loop: ClosedLoops) -> None:
    server, client = serve()
    loop = closed_loop(server.address)
    loop.start(2)
    more_answers(loop, server)
    shutil.rmtree(root)
    more_answers(loop, server)
    assert client.is_server_ready()
    assert {item.state for item in client.get_model_repository_index().models} == {"READY"}
    assert client.get_model_metadata("double").versions == ["1"]
    loop.stop()


def test_loads_from_a_deleted_repository_are_refused_with_the_reason(
    serve: Any, root: Path, kept: Path, closed_loop: ClosedLoops
) -> None:
    server, client = serve("--model-control", "explicit", "--load-model", "double")
    loop = closed_loop(server.address)
    loop.start(2)
    more_answers(loop, server)
    shutil.rmtree(root / "double")
    assert refusal(lambda: client.load_model("double")).startswith("NOT_FOUND: ")
    shutil.rmtree(root)
    for name in ("double", "plain", "nothing"):
        told = refusal(lambda name=name: client.load_model(name))
        assert told.startswith(f"UNAVAILABLE: failed to load '{name}': model repository '"), told
        assert "does not exist" in told
    assert client.is_model_ready("double")
    more_answers(loop, server)
    shutil.copytree(kept, root)
    client.load_model("double")
    client.load_model("plain")
    assert client.is_model_ready("plain")
    more_answers(loop, server)
    loop.stop()
    shutil.rmtree(root)
    client.unload_model("double")  # needs no repository
    assert not client.is_model_ready("double")


def test_a_model_whose_files_are_deleted_goes_on_answering(serve: Any, root: Path, closed_loop: ClosedLoops) -> None:
    server, client = serve("--model-control", "explicit", "--load-model", "double")
    loop = closed_loop(server.address)
    loop.start(1)
    more_answers(loop, server)
    (root / "double" / "1" / "model.onnx").unlink()
    told = refusal(lambda: client.load_model("double"))
    begins = "INVALID_ARGUMENT: failed to load 'double': model 'double' was not loaded again, what was served stays: "
    assert told.startswith(begins), told
    shutil.rmtree(root / "double" / "1")
    told = refusal(lambda: client.load_model("double"))
    assert "no version folder" in told
    more_answers(loop, server)
    loop.stop()


def test_a_polled_repository_that_vanishes_unloads_nothing(
    serve: Any, root: Path, kept: Path, closed_loop: ClosedLoops
) -> None:
    """As when a network drive goes away: nothing was taken out on purpose, so nothing is unloaded."""
    server, client = serve(*POLL)
    loop = closed_loop(server.address)
    loop.start(2)
    more_answers(loop, server)
    gone = root.rename(root.with_name("elsewhere"))
    server.wait_for_log(UNREADABLE)
    shutil.rmtree(gone)
    more_answers(loop, server)
    assert client.is_server_ready()
    coming = shutil.copytree(kept, root.with_name("coming"))
    shutil.copytree(coming / "plain", coming / "another")
    coming.rename(root)
    server.wait_for_log("model 'another' version 1 is ready")
    more_answers(loop, server)
    loop.stop()


def test_a_polled_repository_deleted_bit_by_bit_unloads_models_only_while_it_exists(
    serve: Any, root: Path, kept: Path, closed_loop: ClosedLoops
) -> None:
    """Models whose folders are seen to be gone are unloaded; those left when the repository itself is gone stay."""
    server, client = serve(*POLL)
    loop = closed_loop(server.address)
    loop.start(2)
    more_answers(loop, server)
    shutil.rmtree(root / "plain")
    server.wait_for_log("model 'plain' is gone from the repository")
    server.wait_until(lambda: not client.is_model_ready("plain"))
    more_answers(loop, server)
    for model in ("double", "slow"):
        for file in sorted((root / model).rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
            more_answers(loop, server)  # a model of which parts are left is none that somebody took out
    # At once: a look between two of its folders would see models gone from a repository that is there.
    root.rename(root.with_name("gone"))
    server.wait_for_log(UNREADABLE)
    shutil.copytree(kept, root.with_name("coming")).rename(root)
    server.wait_until(lambda: client.is_model_ready("plain") and client.is_server_ready())
    more_answers(loop, server)
    assert {item.name for item in client.get_model_repository_index().models} == {
        *("double", "picky", "plain", "slow", "text")
    }
    loop.stop()

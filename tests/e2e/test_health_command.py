"""``mnserve health`` against a real server: the exit code that a probe looks at."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnserve.commands.cli import main

LIVE = "inference.GRPCInferenceService/ServerLive"


@pytest.fixture(scope="module")
def address(start_server: Callable[..., Any], write_models: Callable[[Path], None], tmp_path_factory: Any) -> str:
    root = tmp_path_factory.mktemp("repository")
    write_models(root)
    text: str = start_server(root).address
    return text


@pytest.mark.parametrize(
    ("service", "code", "state"),
    [
        ("", 1, "NOT_SERVING"),  # one model of the repository is broken
        (LIVE, 0, "SERVING"),  # no reason to restart the server
        ("double", 0, "SERVING"),
        ("broken", 1, "NOT_SERVING"),
    ],
)
def test_the_exit_code_is_the_state(address: str, capsys: Any, service: str, code: int, state: str) -> None:
    assert main(["health", "--url", address, "--service", service]) == code
    assert capsys.readouterr().out == f"{state}\n"


def test_an_unknown_service_is_a_sentence(address: str, capsys: Any) -> None:
    assert main(["health", "--url", address, "--service", "nobody"]) == 1
    assert "there is no service or model 'nobody'" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_a_sentence(capsys: Any) -> None:
    with socket.socket() as taken:  # bound, and does not listen
        taken.bind(("127.0.0.1", 0))
        assert main(["health", "--url", f"127.0.0.1:{taken.getsockname()[1]}", "--timeout", "20"]) == 1
    assert "no server answers" in capsys.readouterr().err
    assert main(["health", "--timeout", "0"]) == 2

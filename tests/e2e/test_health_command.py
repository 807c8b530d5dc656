"""``mnserve health`` against a real server: the exit code that a probe looks at."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

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


def test_a_server_with_tls_and_tokens_is_asked_without_a_token(
    start_server: Callable[..., Any],
    write_models: Callable[[Path], None],
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The probe of deploy/kubernetes/components/secured, and HEALTHCHECK of an image whose server has TLS."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    (tmp_path / "tokens").write_text("0123456789abcdef infer\n")
    write_models(tmp_path / "models")
    files = {"--tls-certificate": "tls.crt", "--tls-key": "tls.key", "--token-file": "tokens"}
    words = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    server = start_server(tmp_path / "models", *words, announced=False)
    match = re.search(r"grpcs://[^:]+:(\d+)", server.process.stdout.readline())
    assert match is not None, server.log()
    url = f"localhost:{match[1]}"
    probe = ["health", "--service", LIVE, "--url", f"grpcs://{url}", "--tls-ca", str(tmp_path / "ca.crt")]
    assert main(probe) == 0
    assert capsys.readouterr().out == "SERVING\n"
    assert main(["health", "--service", LIVE, "--url", f"grpcs://{url}"]) == 1  # an authority that nobody knows
    assert "no encrypted connection" in capsys.readouterr().err
    # The words of HEALTHCHECK, in a container whose server takes its own options from the environment.
    for option, name in files.items():
        monkeypatch.setenv("MNSERVE_" + option.removeprefix("--").replace("-", "_").upper(), str(tmp_path / name))
    monkeypatch.setenv("MNSERVE_HEALTH_URL", f"grpcs://{url}")
    monkeypatch.setenv("MNSERVE_HEALTH_TLS_CA", str(tmp_path / "ca.crt"))
    assert main(["health", "--service", LIVE]) == 0
    assert capsys.readouterr() == ("SERVING\n", "")
    monkeypatch.setenv("MNSERVE_HEALTH_SERVICE", "nobody")
    assert main(["health"]) == 1
    assert "there is no service or model 'nobody'" in capsys.readouterr().err

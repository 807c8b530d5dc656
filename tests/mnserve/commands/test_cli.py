"""The command line: settings from options, environment and file; one sentence for errors; exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mnserve.access.connection_limits import TransportSettings
from mnserve.access.settings import SecuritySettings
from mnserve.commands import cli, serve
from mnserve.errors import EngineLoadError, SettingsError
from mnserve.settings import ServeSettings


def test_defaults(given: list[ServeSettings]) -> None:
    assert cli.main(["serve", "models"]) == 0
    assert given == [ServeSettings(repository="models")]


def test_options_environment_and_file(
    given: list[ServeSettings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("grpc_port: 1\nmetrics_port: 2\nstrict: true\nproviders: [A, B]\n")
    monkeypatch.setenv("MNSERVE_GRPC_PORT", "3")
    monkeypatch.setenv("MNSERVE_LOG_FORMAT", "json")
    monkeypatch.setenv("MNSERVE_WARM_UP", "false")
    cli.main(["serve", "models", "--config", str(file), "--metrics-port", "4", "--no-reflection"])
    cli.main(["serve", "models"])
    assert given == [
        ServeSettings(
            repository="models",
            grpc_port=1,
            metrics_port=4,
            strict=True,
            providers=("A", "B"),
            log_format="json",
            warm_up=False,
            reflection=False,
        ),
        ServeSettings(repository="models", grpc_port=3, log_format="json", warm_up=False),
    ]


def test_options_of_a_group_are_options_like_others(
    given: list[ServeSettings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("tls_certificate: c.pem\nkeepalive_permit_without_calls: true\n")
    monkeypatch.setenv("MNSERVE_TLS_KEY", "k.pem")
    cli.main(["serve", "models", "--config", str(file), "--keepalive-time", "9", "--token-file", "t"])
    assert given == [
        ServeSettings(
            repository="models",
            security=SecuritySettings(tls_certificate="c.pem", tls_key="k.pem", token_file="t"),
            transport=TransportSettings(keepalive_time=9.0, keepalive_permit_without_calls=True),
        )
    ]


def test_every_option_from_the_environment(given: list[ServeSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNSERVE_REPOSITORY", "models")
    monkeypatch.setenv("MNSERVE_PROVIDERS", "[A, B]")
    monkeypatch.setenv("MNSERVE_DRAIN_DELAY", "2.5")
    monkeypatch.setenv("MNSERVE_MAX_QUEUE_ROWS", "7")
    cli.main(["serve"])
    assert given == [ServeSettings(repository="models", providers=("A", "B"), drain_delay=2.5, max_queue_rows=7)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["serv"],
        ["serve"],
        ["serve", "models", "--nope"],
        ["serve", "models", "--log-level", "loud"],
        ["serve", "models", "--config", "no-such-file.yaml"],
    ],
)
def test_wrong_usage(given: list[ServeSettings], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "error" in capsys.readouterr().err
    assert given == []


@pytest.mark.parametrize(
    "fields",
    [
        {"repository": ""},
        {"grpc_port": 65536},
        {"metrics_port": -1},
        {"grpc_port": 8002},
        {"default_max_batch_size": 0},
        {"max_queue_rows": -1},
        {"max_queue_bytes": 0},
        {"max_concurrent_requests": -1},
        {"max_message_bytes": 10},
        {"intra_op_threads": 100_000_000},
        {"drain_delay": -1.0},
        {"drain_timeout": float("nan")},
        {"intra_op_threads": -1},
        {"providers": ()},
    ],
)
def test_values_that_cannot_work(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        ServeSettings(**{"repository": "models", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grpc-port", "many"], "--grpc-port is 'many'; it must be a whole number"),
        (["--grpc-port", "1.5"], "--grpc-port is '1.5'; it must be a whole number"),
        (["--drain-delay", "soon"], "--drain-delay is 'soon'; it must be a number"),
        (["--drain-delay", "nan"], "--drain-delay is nan; it must be from 0 to 86400 seconds"),
        (["--keepalive-time", "inf"], "--keepalive-time is inf; it must be from 0.1 to 604800 seconds"),
        (["--cuda-graph-batches", "1", "x"], "--cuda-graph-batches is 'x'; it must be a whole number"),
        (["--max-queue-rows", "9" * 5000], "'; it must be a whole number of at most 100 characters"),
    ],
)
def test_what_is_no_number_is_refused_in_a_sentence(
    given: list[ServeSettings], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "models", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert len(error) < 400
    assert given == []


@pytest.mark.parametrize("text", ["grpc_port: 1.5", "grpc_port: true", "grpc_port: [1]", "grpc_port: x"])
def test_what_is_no_number_in_a_file(
    given: list[ServeSettings], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text)
    assert cli.main(["serve", "models", "--config", str(file)]) == 2
    assert "--grpc-port is " in capsys.readouterr().err
    assert given == []


def test_errors_are_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: ServeSettings) -> int:
        raise EngineLoadError("the model is broken; export it again")

    monkeypatch.setattr(serve, "run", run)
    assert cli.main(["serve", "models"]) == 1
    assert capsys.readouterr().err == "mnserve: the model is broken; export it again\n"
    assert cli.main(["serve", "models", "--grpc-port", "-1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (["--version"], "mn-runtime 0."),
        (["--help"], "mnserve serve build/demo/repository"),
        (["serve", "--help"], "MNSERVE_GRPC_PORT"),
        (["serve", "--help"], "TLS and bearer tokens:"),
        (["serve", "--help"], "Limits, keepalive and age of connections:"),
        (["predict", "--help"], "--top"),
        (["bench", "--help"], "--against"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 0
        assert expected in capsys.readouterr().out


def test_help_does_not_load_the_engine() -> None:
    code = (
        "import sys; from mnserve.commands.cli import main\n"
        "try: main(['serve', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'onnxruntime' not in sys.modules and 'grpc' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_an_empty_configuration_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "serve.yaml"
    file.touch()
    with pytest.raises(SystemExit):
        cli.main(["serve", "models", "--config", str(file)])
    assert "the file given with --config is empty or no mapping" in capsys.readouterr().err

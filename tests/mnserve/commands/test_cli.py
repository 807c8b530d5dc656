"""The command line: settings from options, environment and file; one sentence for errors; exit codes."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnserve.access.connection_limits import TransportSettings
from mnserve.access.settings import SecuritySettings
from mnserve.commands import cli
from mnserve.commands.bench import BENCH
from mnserve.commands.command import CommandSpec
from mnserve.commands.serve import SERVE
from mnserve.commands.tune import TUNE
from mnserve.errors import EngineLoadError, SettingsError
from mnserve.settings import ServeSettings
from mnserve.text.text_files import MAX_BYTES

CommandLine = Callable[[Sequence[str]], tuple[int, ServeSettings | None]]


def test_without_options_every_setting_has_its_default(command_line: CommandLine) -> None:
    assert command_line(["serve", "models"]) == (0, ServeSettings(repository="models"))


def test_options_win_over_the_file_and_the_file_over_the_environment(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("grpc_port: 1\nmetrics_port: 2\nstrict: true\nproviders: [A, B]\n")
    monkeypatch.setenv("MNSERVE_GRPC_PORT", "3")
    monkeypatch.setenv("MNSERVE_LOG_FORMAT", "json")
    monkeypatch.setenv("MNSERVE_WARM_UP", "false")
    _, settings = command_line(["serve", "models", "--config", str(file), "--metrics-port", "4", "--no-reflection"])
    assert settings == ServeSettings(
        repository="models",
        grpc_port=1,
        metrics_port=4,
        strict=True,
        providers=("A", "B"),
        log_format="json",
        warm_up=False,
        reflection=False,
    )
    _, settings = command_line(["serve", "models"])
    assert settings == ServeSettings(repository="models", grpc_port=3, log_format="json", warm_up=False)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["serve", "models", "--grpc-por", "3"], "unrecognized arguments: --grpc-por 3; did you mean --grpc-port?"),
        (["serve", "models", "--grpc_port=3"], "did you mean --grpc-port?"),
        (["serv", "models"], "there is no command 'serv'; did you mean serve?"),
        (["serve", "models", "--config", "serve.yaml"], "serve.yaml given with --config has 'grpc_por', which is no"),
        (["serve", "models", "--config", "serve.yaml"], "did you mean grpc_port?"),
    ],
)
def test_a_wrong_word_gets_the_nearest_right_one(
    command_line: CommandLine,
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "serve.yaml").write_text("grpc_por: 3\n")
    with pytest.raises(SystemExit) as caught:
        command_line(words)
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_options_of_a_group_are_options_like_others(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("tls_certificate: c.pem\nkeepalive_permit_without_calls: true\n")
    monkeypatch.setenv("MNSERVE_TLS_KEY", "k.pem")
    words = ["serve", "models", "--config", str(file), "--keepalive-time", "9", "--token-file", "t"]
    assert command_line(words)[1] == ServeSettings(
        repository="models",
        security=SecuritySettings(tls_certificate="c.pem", tls_key="k.pem", token_file="t"),
        transport=TransportSettings(keepalive_time=9.0, keepalive_permit_without_calls=True),
    )


def test_every_option_can_come_from_the_environment(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNSERVE_REPOSITORY", "models")
    monkeypatch.setenv("MNSERVE_PROVIDERS", "[A, B]")
    monkeypatch.setenv("MNSERVE_DRAIN_DELAY", "2.5")
    monkeypatch.setenv("MNSERVE_MAX_QUEUE_ROWS", "7")
    expected = ServeSettings(repository="models", providers=("A", "B"), drain_delay=2.5, max_queue_rows=7)
    assert command_line(["serve"]) == (0, expected)


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
def test_wrong_usage_exits_with_2(
    command_line: CommandLine, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        command_line(words)
    assert caught.value.code == 2
    assert "error" in capsys.readouterr().err


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
def test_values_that_cannot_work_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        ServeSettings(**{"repository": "models", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grpc-port", "many"], "--grpc-port is 'many'; it must be a whole number"),
        (["--grpc-port", "1.5"], "--grpc-port is '1.5'; it must be a whole number"),
        (["--server-name", "a\nb"], "--server-name is 'a\\nb'; it must have 1 to 128 printable characters"),
        (["--server-name", ""], "--server-name is ''; it must have 1 to 128 printable characters"),
        (["--drain-delay", "soon"], "--drain-delay is 'soon'; it must be a number"),
        (["--drain-delay", "nan"], "--drain-delay is nan; it must be from 0 to 86400 seconds"),
        (["--keepalive-time", "inf"], "--keepalive-time is inf; it must be from 0.1 to 604800 seconds"),
        (["--cuda-graph-batches", "1", "x"], "--cuda-graph-batches is 'x'; it must be a whole number"),
        (["--max-queue-rows", "9" * 5000], "'; it must be a whole number of at most 100 characters"),
    ],
)
def test_an_option_that_is_no_number_is_refused_in_a_sentence(
    command_line: CommandLine, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["serve", "models", *words]) == (2, None)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(error) < 400


@pytest.mark.parametrize("text", ["grpc_port: 1.5", "grpc_port: true", "grpc_port: [1]", "grpc_port: x"])
def test_a_file_with_a_value_that_is_no_number_is_refused(
    command_line: CommandLine, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(text)
    assert command_line(["serve", "models", "--config", str(file)]) == (2, None)
    assert "--grpc-port is " in capsys.readouterr().err


def test_errors_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: ServeSettings) -> int:
        raise EngineLoadError("the model is broken; export it again")

    assert cli.main(["serve", "models"], [replace(SERVE, run=run, configure_log=None)]) == 1
    assert capsys.readouterr().err == "mnserve: the model is broken; export it again\n"
    assert cli.main(["serve", "models", "--grpc-port", "-1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_version_and_help_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], {"onnxruntime", "grpc", "numpy", "matplotlib", "PIL", "mnserve.settings"}),
        *((([command.name, "--help"]), {"onnxruntime", "grpc", "matplotlib", "PIL"}) for command in cli.COMMANDS),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_help_loads_neither_engine_nor_grpc(words: list[str], heavy: set[str]) -> None:
    code = (
        "import sys; from mnserve.commands.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit: pass\n"
        f"loaded = sorted({heavy!r} & sys.modules.keys())\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_an_empty_configuration_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "serve.yaml"
    file.touch()
    with pytest.raises(SystemExit):
        cli.main(["serve", "models", "--config", str(file)])
    assert "the file given with --config is empty or no mapping" in capsys.readouterr().err


def test_a_list_option_that_is_given_again_adds_to_the_list(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["serve", "models", "--model-control=explicit", "--load-model", "a", "b", "--load-model=c"]
    for _ in range(2):
        assert command_line(words)[1] == ServeSettings(
            repository="models", model_control="explicit", load_model=("a", "b", "c")
        )
    monkeypatch.setenv("MNSERVE_PROVIDERS", "A")
    words = ["serve", "models", "--providers", "cuda", "--provider-options", "cuda.k=1", "--providers", "C"]
    words += ["--provider-options", "cuda.l=2", "--cuda-graph-batches", "1", "--cuda-graph-batches", "8"]
    settings = command_line(words)[1]
    assert settings is not None
    assert settings.providers == ("cuda", "C"), "the command line wins over the environment"
    assert settings.provider_options == ("cuda.k=1", "cuda.l=2")
    assert settings.cuda_graph_batches == (1, 8)


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        (BENCH, ["--batch", "1", "--batch", "8"], {"batch": "1,8"}),
        (BENCH, ["--shape", "a:1", "--shape", "b:2"], {"shape": ["a:1", "b:2"]}),
        (TUNE, ["--latency-ms", "9", "--callers", "1", "--callers", "8,9"], {"callers": "1,8,9"}),
    ],
)
def test_lists_of_measurements_may_be_given_again(
    command: CommandSpec[Any], words: list[str], expected: dict[str, object]
) -> None:
    received: list[Any] = []
    spec = replace(command, run=lambda settings: received.append(settings) or 0)  # type: ignore[func-returns-value]
    assert cli.main([command.name, "models", "m", *words], [spec]) == 0
    assert {name: getattr(received[0], name) for name in expected} == expected


def test_every_model_is_asked_for_by_a_star_alone(command_line: CommandLine) -> None:
    words = ["serve", "models", "--model-control", "explicit", "--load-model", "*"]
    assert command_line(words)[1] == ServeSettings(repository="models", model_control="explicit", load_model=("*",))
    with pytest.raises(SettingsError, match="--load-model has \\*"):
        ServeSettings(repository="models", model_control="explicit", load_model=("*", "m"))


def test_a_configuration_file_is_no_pipe(
    command_line: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert command_line(["serve", "models", "--config", str(tmp_path / "pipe")])[0] == 2
    assert "is a pipe, a socket or a device; give the name of a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (codecs.BOM_UTF8 + b"grpc_port: 7", 7),
        ("grpc_port: 7".encode("utf-16"), "is not UTF-8; save it as UTF-8"),
        (b"#" * (MAX_BYTES + 1), f"has {MAX_BYTES + 1} bytes, and no more than {MAX_BYTES} are read"),
    ],
    ids=["marked", "UTF-16", "large"],
)
def test_a_configuration_file_is_text_of_limited_size(
    command_line: CommandLine, content: bytes, outcome: int | str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.yaml"
    file.write_bytes(content)
    code, settings = command_line(["serve", "models", "--config", str(file)])
    assert (
        outcome in capsys.readouterr().err if isinstance(outcome, str) else settings and settings.grpc_port == outcome
    )
    assert code == (2 if isinstance(outcome, str) else 0)

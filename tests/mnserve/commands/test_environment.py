"""The environment of a container: variables that Kubernetes sets for Services, and names that no option has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mnserve.settings import ServeSettings

CommandLine = Callable[[Sequence[str]], tuple[int, ServeSettings | None]]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MNSERVE_GRPC_PORT", "tcp://10.0.0.1:8001"),
        ("MNSERVE_GRPC_PORT", "tcp://[fd00::1]:8001"),
        ("MNSERVE_METRICS_PORT", "udp://10.0.0.1:8002"),
        ("MNSERVE_METRICS_PORT", "tcp://mnserve.example.org:8002"),
    ],
)
def test_the_address_of_a_service_is_ignored_with_a_warning(
    command_line: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)
    assert command_line(["serve", "models"]) == (0, ServeSettings(repository="models"))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert f"{variable} is '{value}', which Kubernetes sets for a Service of that name" in record.getMessage()
    assert command_line(["serve", "models", f"--{variable[8:].lower().replace('_', '-')}", "9"])[0] == 0
    assert len(caplog.records) == 1, "nobody needs to know once the option is given"


def test_all_other_variables_of_services_are_passed_over_in_silence(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for service in ("MNSERVE", "MNSERVE_GRPC"):
        for suffix, value in (
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT", "8001"),
            ("SERVICE_PORT_HTTP_METRICS", "8002"),
            ("PORT_8001_TCP", "tcp://10.0.0.1:8001"),
            ("PORT_8001_TCP_ADDR", "10.0.0.1"),
            ("PORT_8001_TCP_PORT", "8001"),
            ("PORT_8001_TCP_PROTO", "tcp"),
        ):
            monkeypatch.setenv(f"{service}_{suffix}", value)
    monkeypatch.setenv("MNSERVE_PORT", "tcp://10.0.0.1:8001")
    assert command_line(["serve", "models"]) == (0, ServeSettings(repository="models"))
    assert not caplog.records


@pytest.mark.parametrize("value", ["many", "tcp://", "http://10.0.0.1:8001", "10.0.0.1:8001", "tcp:8001", ""])
def test_a_mistake_is_refused_unless_the_command_line_has_the_option(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    monkeypatch.setenv("MNSERVE_GRPC_PORT", value)
    assert command_line(["serve", "models"]) == (2, None)
    assert f"in the environment (MNSERVE_…): --grpc-port is '{value}'; it must be a whole number" in (
        capsys.readouterr().err
    )
    assert command_line(["serve", "models", "--grpc-port=9"]) == (0, ServeSettings(repository="models", grpc_port=9))


def test_a_name_that_no_option_has_causes_a_warning(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MNSERVE_LOGLEVEL", "debug")
    assert command_line(["serve", "models"]) == (0, ServeSettings(repository="models"))
    assert [record.getMessage() for record in caplog.records] == [
        "no option has the name MNSERVE_LOGLEVEL, and it is ignored; write MNSERVE_LOG_LEVEL if that is meant"
    ]


def test_variables_of_another_command_are_passed_over_in_silence(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MNSERVE_HEALTH_URL", "grpcs://localhost:8001")
    assert command_line(["serve", "models"]) == (0, ServeSettings(repository="models"))
    assert not caplog.records


def test_a_file_that_a_variable_names_has_less_say_than_other_variables(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So components of deploy/kubernetes change options of the base."""
    (tmp_path / "serve.yaml").write_text("drain_delay: 10\ndrain_timeout: 20\n")
    monkeypatch.setenv("MNSERVE_CONFIG", str(tmp_path / "serve.yaml"))
    monkeypatch.setenv("MNSERVE_DRAIN_DELAY", "15")
    code, settings = command_line(["serve", "models"])
    assert code == 0
    assert settings == ServeSettings(repository="models", drain_delay=15, drain_timeout=20)

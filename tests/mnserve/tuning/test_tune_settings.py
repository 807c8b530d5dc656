"""Settings of ``mnserve tune``: values that are refused before any work, and the options of the measured server."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mnserve.commands import cli
from mnserve.commands.tune import TUNE
from mnserve.errors import SettingsError
from mnserve.settings import ServeSettings
from mnserve.tuning.settings import TuneSettings

CommandLine = Callable[[Sequence[str]], tuple[int, ServeSettings | None]]


def settings(**fields: Any) -> TuneSettings:
    return TuneSettings(**({"repository": "r", "model": "m", "latency_ms": 20.0} | fields))


def test_options_on_the_command_line_become_settings() -> None:
    received: list[TuneSettings] = []
    words = "tune r m --latency-ms 20 --percentile 95 --callers 1,16 --rows 2 --dry-run --json - --shape x:3"
    assert cli.main(words.split(), [replace(TUNE, run=lambda settings: received.append(settings) or 0)]) == 0  # type: ignore[func-returns-value]
    expected = settings(percentile=95.0, callers="1,16", rows=2, dry_run=True, json="-", shape=["x:3"])
    assert received == [expected]
    assert expected.loads == (1, 16)


def test_options_of_the_measured_server_win_over_the_environment(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNSERVE_INTRA_OP_THREADS", "3")
    monkeypatch.setenv("MNSERVE_CACHE_BYTES", "1000")
    monkeypatch.setenv("MNSERVE_RATE_LIMIT", "1")
    monkeypatch.setenv("MNSERVE_DEFAULT_MAX_BATCH_SIZE", "2")
    words = ["serve", "r", *settings().server_arguments]
    expected = ServeSettings(repository="r", providers=("cpu",), max_concurrent_requests=0)
    assert command_line(words) == (0, expected)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"latency_ms": 0.0}, r"--latency-ms is 0\.0; it must be a number above 0, in milliseconds"),
        ({"latency_ms": -1.0}, r"--latency-ms is -1\.0"),
        ({"latency_ms": math.nan}, "--latency-ms is nan"),
        ({"latency_ms": math.inf}, "--latency-ms is inf"),
        ({"percentile": 0.0}, r"--percentile is 0\.0; it must be above 0 and at most 99\.999, such as 99, or 100"),
        ({"percentile": 99.9999999999}, r"--percentile is 99\.9999999999; it must be above 0 and at most 99\.999"),
        ({"percentile": 100.1}, r"--percentile is 100\.1"),
        ({"percentile": math.nan}, "--percentile is nan"),
        ({"callers": "1;2"}, "--callers '1;2' is not a list of numbers of callers: '1;2' is not a whole number"),
        ({"callers": "0"}, "--callers '0' is not a list"),
        ({"callers": "1,1025"}, "--callers is 1025; it must be at least 1 and at most 1024"),
        ({"callers": "9" * 5000}, r"--callers '9{64}\.\.\.' is not a list"),
        ({"shape": ["x:" + "9" * 5000]}, "--shape .* is not NAME:DIM,DIM with dimensions from 1 to 2147483647"),
        ({"latency_ms": 1e9}, "and at most 86400000"),
        ({"seconds": 1e6}, r"--seconds is 1000000\.0; it must be a number above 0, in seconds, and at most 86400"),
        ({"repeats": 1001}, "--repeats is 1001; it must be at least 1 and at most 1000"),
        ({"cpus": 10**20}, "or up to 65536"),
        ({"rows": 2**31}, "and at most 2147483647"),
        ({"seed": 2**63}, "at least 0 and at most"),
        ({"rows": 0}, "--rows is 0; it must be at least 1"),
        ({"seconds": 0.0}, r"--seconds is 0\.0"),
        ({"timeout": math.nan}, "--timeout is nan"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"max_batch_size": -1}, "--max-batch-size is -1"),
        ({"cpus": -1}, "--cpus is -1"),
        ({"seed": -1}, "--seed is -1"),
        ({"shape": ["x"]}, "--shape 'x' is not NAME:DIM,DIM"),
        ({"plot": "a.gif"}, r"--plot 'a\.gif' has no known ending"),
        ({"cuda_graph_batches": (8,)}, "CUDAExecutionProvider is not among the providers"),
    ],
)
def test_values_that_cannot_work_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings(**fields)


FLOATS = ("latency-ms", "percentile", "seconds", "timeout")
WHOLE = ("rows", "repeats", "max-batch-size", "cpus", "seed")


@pytest.mark.parametrize(
    ("option", "value"),
    [(name, value) for name in FLOATS for value in ("nan", "inf", "-inf", "1e400", "-5", "0", "abc", "")]
    + [(name, value) for name in WHOLE for value in ("nan", "inf", "-5", "1.5", "abc", "", "9" * 5000)]
    + [("callers", value) for value in ("nan", "-1", "0", "1,,2", "1e3", "", "9" * 5000)]
    + [("cuda-graph-batches", value) for value in ("nan", "0", "1.5")],
)
def test_every_number_that_cannot_work_is_refused_in_a_sentence(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option, the value and a valid one, on one line, without words of the parser."""
    bound = [] if option == "latency-ms" else ["--latency-ms=20"]
    assert cli.main(["tune", "r", "m", *bound, f"--{option}={value}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith((f"mnserve: --{option} ", f"mnserve: {option.replace('-', '_')} "))
    assert any(words in error for words in ("it must be", "write for instance", "a batch has from 1 to"))
    assert error.count("\n") == 1
    assert len(error) < 400
    for word in ("Parser key", "<class", "usage:", "Exceeds the limit"):
        assert word not in error

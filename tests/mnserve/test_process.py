"""What the server prints when it is up."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest
from rich.console import Console

from mnserve.engines.base import EngineOptions
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.process import _announce
from mnserve.starting.addresses import Addresses

STEERING = ("\x1b", "\x9b", "\u2028", "\u202e")


async def test_no_model_can_break_or_steer_the_table(repository: Path, double_model: Callable[..., Path]) -> None:
    double_model("good")
    double_model("[red]\x9b31m")
    double_model("markup", config='backend: "[/x]"')
    double_model("steered", config='platform: "\\033[2J\\342\\200\\250\\342\\200\\256"')
    models = Models(repository, LoadOptions(engine=EngineOptions(intra_op_threads=1)))
    await models.load_all()
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=400)
    _announce(Addresses(grpc="grpc://127.0.0.1:1", metrics="http://127.0.0.1:2/metrics"), models.states(), console)
    await models.drain(20)
    text = stream.getvalue()
    assert "'[/x]'" in text
    assert "[red]\\x9b31m" in text
    assert "\\x1b[2J\\u2028\\u202e" in text
    assert "x FP32 [4]" in text
    assert not [character for character in STEERING if character in text]
    assert text.endswith("serving 2 models on grpc://127.0.0.1:1, metrics http://127.0.0.1:2/metrics\n")


@pytest.fixture
def endless(repository: Path) -> Path:
    """Repository of a model whose run never ends."""
    endless = (
        "(float[N,4] x) => (float[N,4] y) { yes = Constant<value = bool {1}>() y = Loop<body = step (int64 i, bool c, "
        "float[N,4] v) => (bool go, float[N,4] w) { go = Identity(c) w = Mul(v, v) }>(, yes, x) }"
    )
    folder = repository / "m" / "1"
    folder.mkdir(parents=True)
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {endless}'), folder / "model.onnx")
    return repository


def test_a_run_that_never_ends_aborts_no_failed_start(endless: Path) -> None:
    """An engine's thread cannot be stopped, and would abort the process while the interpreter is finalized."""
    words = ["serve", str(endless), "--grpc-port", "0", "--metrics-port", "0", "--run-timeout", "0.2"]
    ended = subprocess.run([sys.executable, "-m", "mnserve", *words], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "a warm-up run has not ended after 0.2 s (--run-timeout)" in ended.stderr.splitlines()[-1]


def test_a_check_can_be_interrupted_in_a_run_that_never_ends(endless: Path) -> None:
    interrupted = (
        "import _thread, sys; from mnserve.models.trial_runs import TrialRuns; from mnserve.commands.cli import main; "
        "before = TrialRuns._announce; TrialRuns._announce = lambda *call: before(*call) or _thread.interrupt_main(); "
        f"sys.exit(main(['check', {str(endless)!r}]))"
    )
    ended = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "mnserve: interrupted\n")

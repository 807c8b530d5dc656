"""What the server prints when it is up."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from mnserve.engines.base import EngineOptions
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models
from mnserve.process import _announce
from mnserve.server import Addresses

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

"""Run a script in this process as from a shell; scripts import modules beside them."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Done:
    """Exit code and output of a script."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def run_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run ``main`` of a script: ``run_script("node_profile", folder, "--runs", 3)``."""

    def call(script: str, *words: object) -> Done:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *map(str, words)])
        code: object = 0
        try:
            code = importlib.import_module(script).main()
        except SystemExit as error:
            code = error.code
        told = capsys.readouterr()
        if isinstance(code, str):  # the interpreter prints it and ends with 1
            return Done(1, told.out, told.err + code)
        assert code is None or isinstance(code, int)
        return Done(code or 0, told.out, told.err)

    return call

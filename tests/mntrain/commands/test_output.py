"""Closed pipes and letters that the encoding lacks."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [["fit", "digits", "--fields"], ["recipes"]])
def test_a_closed_pipe_gives_no_traceback(words: list[str]) -> None:
    script = f"{sys.executable} -m mntrain.commands.cli {' '.join(words)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "1"), "1 where the pipe was closed before the output was written"


def test_letters_that_the_encoding_lacks_are_escaped() -> None:
    script = (
        "import sys; from mntrain.commands.output import run_command; sys.exit(run_command(lambda: print('Δ 猫') or 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, r"\u0394 \u732b")

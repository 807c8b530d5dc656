"""Standard output that is closed, full, or not UTF-8, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mnserve.commands.streams import flushed
from mnserve.text.names import listed, printable

MNSERVE = [sys.executable, "-m", "mnserve"]


def run(*arguments: str | Path, **fields: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **fields.pop("env", {})}
    given = {"stdout": subprocess.PIPE, **fields}
    return subprocess.run(
        [*MNSERVE, *map(str, arguments)], stderr=subprocess.PIPE, text=True, timeout=60, env=environment, **given
    )


@pytest.fixture
def predicting(colour_model: Callable[..., Path], tmp_path: Path) -> list[str | Path]:
    """Arguments that predict one image whose name and label are not ASCII."""
    image = tmp_path / "ü.png"
    Image.new("RGB", (6, 4), "red").save(image)
    return ["predict", colour_model("m", labels=("röt", "green", "blue")), image]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_sentence(predicting: list[str | Path], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = run(*predicting, stdout=full, env={"PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == 1
    assert done.stderr.startswith("mnserve: cannot write to standard output: No space left on device; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_left_ends_the_command_without_a_message(predicting: list[str | Path], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run(*predicting, stdout=writing, env={"PYTHONUNBUFFERED": unbuffered})
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_streams_that_are_not_utf_8_get_escapes(predicting: list[str | Path]) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = run(*predicting, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "r\\xf6t 1.0000" in done.stdout
    model = Path(predicting[1])
    model.with_name("n").symlink_to(model)
    (model / "config.pbtxt").write_text((model / "config.pbtxt").read_text().replace('name: "m"', ""))
    bench = run(*["bench", model.parent, "m", "--against", "n", "--seconds", "0.02", "--rounds", "2"], env=ascii_only)
    assert (bench.returncode, bench.stderr) == (0, "")
    assert "\\u2013" in bench.stdout


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone", "name"), OSError(28, "full", "name"), OSError(2, "x")])
def test_errors_of_other_files_are_raised_unchanged(error: OSError) -> None:
    def fail() -> int:
        raise error

    with pytest.raises(OSError) as caught:  # noqa: PT011 (the very object is compared)
        flushed(fail)
    assert caught.value is error


def test_names_in_messages_stay_on_one_line_and_lists_short() -> None:
    assert printable("a\u202eb\u200b\ufeff") == "a\\u202eb\\u200b\\ufeff"
    assert printable("a\nb\t\x1b[0m\udcff\u2028c [ü]") == "a\\nb\\t\\x1b[0m\\udcff\\u2028c [ü]"
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(number) for number in range(22)]).endswith("18, 19 and 2 more")

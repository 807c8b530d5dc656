"""Names from outside in tables and progress: no markup, nothing that steers the terminal."""

import io

from rich.console import Console

from mntrain.result_table import ResultTable
from mntrain.run_progress import RunProgress
from mntrain.terminal_text import printable

NAME = "[/x] :cat: \x1b[2J\x9b\u2028\u202e"
SHOWN = r"[/x] :cat: \x1b[2J\x9b\u2028\u202e"


def test_steering_characters_are_escaped_and_text_stays() -> None:
    assert printable(NAME) == SHOWN
    assert printable("größe\t1\n2") == "größe\t1\n2"


def test_a_table_shows_names_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=200)
    ResultTable(headings=(NAME, "n"), rows=[[NAME, "1"]], caption=NAME).show(console, title=NAME, notes=[NAME])
    assert console.file.getvalue().count(SHOWN) == 5  # type: ignore[attr-defined]


def test_progress_shows_names_as_they_are() -> None:
    progress = RunProgress(1, quiet=False)
    progress._console = Console(file=io.StringIO(), width=200)
    progress.say(NAME)
    assert progress._console.file.getvalue() == f"{SHOWN}\n"  # type: ignore[attr-defined]

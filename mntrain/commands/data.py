"""Command ``mntrain data``: show what the data of a recipe holds, and what becomes of it."""

import json
from dataclasses import dataclass

from mntrain.commands.command import Command
from mntrain.commands.options import FilePath, OtherWords, RecipeName
from mntrain.terminal_text import printable

_EPILOG = """\
Nothing is trained, but what `mntrain fit` would refuse is refused here too. Fields of the recipe are options:

  mntrain data digits
  mntrain data images --data.path path/to/folder --html build/data.html
  mntrain data table --data.path path/to/rows.csv --json
  mntrain data pacs --data.path path/to/pacs --data.leaks refuse
"""


@dataclass(frozen=True, kw_only=True)
class DataCommand:
    """Options of ``mntrain data``.

    Args:
        recipe: name of a recipe, or path of a YAML file
        overrides: fields of the recipe
        html: write a page with images of each class, or the values of each column
        json: print the summary as JSON
    """

    recipe: RecipeName
    overrides: OtherWords = ()
    html: FilePath | None = None
    json: bool = False


def run(command: DataCommand) -> int:
    """Print the summary; returns the exit code."""
    from mntrain.config import load_experiment

    config = load_experiment(command.recipe, command.overrides)
    if command.html is not None:
        from mntrain.analysis.page_file import check_writable

        check_writable(command.html, "--html")
    from mntrain.training.checked_run import check_run
    from mntrain.training.run_record import summarize_run

    checked = check_run(config, device="meta")
    record = summarize_run(checked.setup, checked.rates, checked.trained_start)
    if command.html is not None:
        from mntrain.analysis.page_file import write_page
        from mntrain.datasheet.page import data_page

        write_page(command.html, data_page(config.name, record, checked.data), "--html")
    if command.json:
        print(json.dumps(record, allow_nan=False))
    else:
        from rich.console import Console

        from mntrain.datasheet.text import print_summary

        print_summary(Console(), record)
        if command.html is not None:
            print(printable(f"page {command.html}"))
    return 0


COMMAND = Command(
    options=DataCommand,
    run=run,
    summary="show what the data of a recipe holds and what becomes of it; trains nothing",
    description="Show what the data of a recipe holds, and what becomes of it, without training.",
    epilog=_EPILOG,
)

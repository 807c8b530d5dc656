"""Table of results, for terminals and in markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from mntrain.terminal_text import plain

_WIDEST = 1000


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """Table of texts.

    Args:
        headings: headings of the columns; the first column names the row.
        rows: cells of each row, as many as there are headings.
        caption: description of the figures.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str

    def show(self, console: Console, *, title: str, notes: Sequence[str] = ()) -> None:
        """Print the table, its caption, and a line for each note."""
        table = Table(title=plain(title), title_justify="left")
        for column, heading in enumerate(self.headings):
            table.add_column(plain(heading), justify="right" if column else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*(plain(cell) for cell in row))
        # A narrow terminal wraps lines instead of cutting figures off.
        needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
        console.width = max(console.width, needed)
        console.print(table)
        for line in (self.caption, *notes):
            console.print(plain(line), soft_wrap=True)

    def markdown(self) -> str:
        """Write the table in markdown, with the caption under it."""
        dashes = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = "\n".join(f"| {' | '.join(map(_literal, line))} |" for line in (self.headings, *self.rows))
        head, _, body = lines.partition("\n")
        return f"{head}\n| {' | '.join(dashes)} |\n{body}\n\n{self.caption}\n"


def _literal(cell: str) -> str:
    return "".join(f"\\{letter}" if letter in "|*" else letter for letter in cell)

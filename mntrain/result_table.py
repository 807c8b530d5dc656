"""A table of results: on a terminal, and in markdown for documentation."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 1000


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """Texts in columns.

    Args:
        headings: of the columns; the first column names the row.
        rows: as many cells each as there are headings.
        caption: what the figures are of.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str

    def show(self, console: Console, *, title: str, notes: Sequence[str] = ()) -> None:
        """Print the table, its caption and ``notes``, a line each."""
        table = Table(title=escape(title), title_justify="left")
        for place, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*(escape(cell) for cell in row))
        # Figures cut off by a narrow terminal would be worse than lines that it wraps.
        needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
        console.width = max(console.width, needed)
        console.print(table)
        for line in (self.caption, *notes):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    def markdown(self) -> str:
        """The table with the caption under it."""
        dashes = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = "\n".join(f"| {' | '.join(map(_literal, line))} |" for line in (self.headings, *self.rows))
        head, _, body = lines.partition("\n")
        return f"{head}\n| {' | '.join(dashes)} |\n{body}\n\n{self.caption}\n"


def _literal(cell: str) -> str:
    return "".join(f"\\{letter}" if letter in "|*" else letter for letter in cell)

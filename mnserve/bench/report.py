"""Where the result of a measurement goes: JSON and a plot in files, a table on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console

from mnserve.bench.plot import save_figure
from mnserve.files import check_writable, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report"]

_STANDARD_OUTPUT = "-"
_LOG_COLUMNS = 140


@dataclass(frozen=True, kw_only=True)
class Report:
    """Destinations of a result. Where JSON goes to standard output, everything else goes to standard error."""

    json_file: Path | None
    on_standard_output: bool
    plot_file: Path | None

    @classmethod
    def to(cls, json_option: str | None, plot_option: str | None) -> Self:
        """What the options --json and --plot mean.

        Raises:
            OutputError: a file cannot be written, found out before there is anything to write.
        """
        on_standard_output = json_option == _STANDARD_OUTPUT
        json_file = None if json_option is None or on_standard_output else Path(json_option)
        plot_file = None if plot_option is None else Path(plot_option)
        for path in (json_file, plot_file):
            if path is not None:
                check_writable(path)
        return cls(json_file=json_file, on_standard_output=on_standard_output, plot_file=plot_file)

    def deliver(
        self, document: Mapping[str, object], draw: Callable[[], Figure], show: Callable[[Console], None]
    ) -> None:
        """Writes the files, shows the table, and prints the JSON where it was asked for.

        Raises:
            OutputError: a file cannot be written.
        """
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        if self.json_file is not None:  # files first: standard output may be closed or full by now
            write_atomically(self.json_file, text.encode())
        if self.plot_file is not None:
            save_figure(draw(), self.plot_file)
        show(self._console())
        if self.on_standard_output:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _console(self) -> Console:
        """As wide as the terminal; elsewhere as wide as the table needs and not the 80 columns of a guess."""
        console = Console(stderr=self.on_standard_output, highlight=False)
        if console.is_terminal:
            return console
        return Console(stderr=self.on_standard_output, highlight=False, width=_LOG_COLUMNS)

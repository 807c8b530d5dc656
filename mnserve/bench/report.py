"""Report of a measurement: JSON and a plot in files, a table on the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console

from mnserve.atomic_files import check_writable, write_atomically
from mnserve.bench.plot import save_figure
from mnserve.errors import OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STANDARD_OUTPUT = "-"
_LOG_COLUMNS = 140


@dataclass(frozen=True, kw_only=True)
class Report:
    """Destinations of a result. With JSON on standard output, the table goes to standard error."""

    json_file: Path | None
    on_standard_output: bool
    plot_file: Path | None

    @classmethod
    def to(cls, json_option: str | None, plot_option: str | None, models: Sequence[Path] = ()) -> Self:
        """Checks the options --json and --plot, before there is a result to write.

        Args:
            json_option: File for the JSON, or ``-``.
            plot_option: File for the plot.
            models: Folders of models, in which no result is written.

        Raises:
            OutputError: A file cannot be written, or would replace another one.
        """
        on_standard_output = json_option == _STANDARD_OUTPUT
        json_file = None if json_option is None or on_standard_output else Path(json_option)
        plot_file = None if plot_option is None else Path(plot_option)
        for path in (json_file, plot_file):
            if path is not None:
                check_writable(path)
                _check_outside(path, models)
        if json_file is not None and plot_file is not None and _real(json_file) == _real(plot_file):
            raise OutputError(
                f"--json {json_file} and --plot {plot_file} are the same file, of which only the plot would be left; "
                "give them two names"
            )
        return cls(json_file=json_file, on_standard_output=on_standard_output, plot_file=plot_file)

    def deliver(
        self, document: Mapping[str, object], draw: Callable[[], Figure], show: Callable[[Console], None]
    ) -> None:
        """Writes the files, shows the table, and prints the JSON if standard output was chosen.

        Raises:
            OutputError: A file cannot be written.
        """
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        if self.json_file is not None:  # before standard output, which may be closed or full
            write_atomically(self.json_file, text.encode())
        if self.plot_file is not None:
            save_figure(draw(), self.plot_file)
        show(self._console())
        if self.on_standard_output:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _console(self) -> Console:
        """Opens a console as wide as the terminal; elsewhere wide enough for the table, beyond the default of 80."""
        console = Console(stderr=self.on_standard_output, highlight=False)
        if console.is_terminal:
            return console
        return Console(stderr=self.on_standard_output, highlight=False, width=_LOG_COLUMNS)


def _check_outside(path: Path, models: Sequence[Path]) -> None:
    for model in models:
        if _real(path).is_relative_to(_real(model)):
            raise OutputError(
                f"cannot write {path}: it lies in the model's folder {model}, whose files it could replace; "
                "choose another place"
            )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))

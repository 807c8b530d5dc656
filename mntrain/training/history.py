"""Metrics of a run as CSV and as TensorBoard events."""

import csv
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from mntrain.atomic_files import write_atomically

Row = dict[str, float]


def write_csv(path: Path, history: list[Row]) -> None:
    """One line an epoch; the file is replaced whole, so a resumed run leaves no line twice."""

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(history[0]))
            writer.writeheader()
            writer.writerows(history)

    write_atomically(path, write)


class EventWriter:
    """TensorBoard events of a run.

    Args:
        folder: where the event files go.
        finished_epochs: events of later epochs, left by a run that was killed, are hidden.
    """

    def __init__(self, folder: Path, finished_epochs: int = 0) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=finished_epochs + 1)

    def add(self, row: Row) -> None:
        """Write one epoch's metrics at step ``row["epoch"]``."""
        for name, value in row.items():
            if name != "epoch":
                self._writer.add_scalar(name.replace("_", "/", 1), value, int(row["epoch"]))
        self._writer.flush()

    def close(self) -> None:
        """Finish the event file."""
        self._writer.close()

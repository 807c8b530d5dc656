"""Predictions as text: a table on a terminal, one line each elsewhere, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mnserve.predicting.answers import Label, LabelledPrediction
from mnserve.predicting.explanations import Explanation, Neighbor
from mnserve.text.names import printable


def line(prediction: LabelledPrediction) -> str:
    """``FILE: LABEL PROBABILITY, LABEL PROBABILITY …``, the best first; then the explanation, where there is one."""
    scores = ", ".join(f"{one.label} {one.probability:.4f}" for one in prediction.top)
    if prediction.explanation is None:
        return printable(f"{prediction.file}: {scores}")
    unadapted = _unadapted(prediction.explanation)
    neighbors = ", ".join(_neighbor(one) for one in prediction.explanation.neighbors)
    return printable(f"{prediction.file}: {scores}; without adaptation {unadapted}; neighbors {neighbors}")


def print_table(predictions: Sequence[LabelledPrediction], console: Console) -> None:
    """All predictions as one table."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("file", overflow="fold")
    table.add_column("prediction", style="bold")
    table.add_column("probability", justify="right")
    if any(len(one.top) > 1 for one in predictions):
        table.add_column("then")
    explanations = [one.explanation for one in predictions if one.explanation is not None]
    pictured = any(neighbor.images for one in explanations for neighbor in one.neighbors)
    if explanations:
        table.add_column("without adaptation")
        table.add_column(f"neighbors (entry, share{'; training images, nearest first' if pictured else ''})")
    for one in predictions:
        # Text, not str: brackets in file names and labels are no markup.
        cells = [Text(printable(one.file)), Text(printable(one.top[0].label)), Text(_percent(one.top[0]))]
        if len(one.top) > 1:
            cells.append(Text(printable(", ".join(f"{other.label} {_percent(other)}" for other in one.top[1:]))))
        if one.explanation is not None:
            neighbors = (printable(_neighbor(neighbor)) for neighbor in one.explanation.neighbors)
            between = "\n" if pictured else ", "
            cells += [Text(printable(_unadapted(one.explanation))), Text(between.join(neighbors))]
        table.add_row(*cells)
    console.print(table)


def write_json(predictions: Sequence[LabelledPrediction], stream: TextIO) -> None:
    """A JSON list with one object for each prediction."""
    json.dump([one.to_json() for one in predictions], stream, indent=2)
    stream.write("\n")


def _unadapted(explanation: Explanation) -> str:
    return f"{explanation.unadapted_label} {explanation.unadapted_probability:.1%}"


def _neighbor(neighbor: Neighbor) -> str:
    """``LABEL (#ENTRY, SHARE; training images LABEL at POSITION …)``."""
    images = ", ".join(f"{image.label} at {image.position}" for image in neighbor.images)
    training = f"; training images {images}" if images else ""
    return f"{neighbor.label} (#{neighbor.entry}, {neighbor.weight:.1%}{training})"


def _percent(label: Label) -> str:
    return f"{label.probability:.1%}"

"""Reports of predictions: a table on a terminal, one line each elsewhere, or JSON."""

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
    """Formats ``FILE: LABEL PROBABILITY, LABEL PROBABILITY …``, the best first, and then any explanation."""
    scores = ", ".join(f"{label.label} {label.probability:.4f}" for label in prediction.top)
    if prediction.explanation is None:
        return printable(f"{prediction.file}: {scores}")
    unadapted = _unadapted(prediction.explanation)
    neighbors = ", ".join(map(_neighbor, prediction.explanation.neighbors))
    return printable(f"{prediction.file}: {scores}; without adaptation {unadapted}; neighbors {neighbors}")


def print_table(predictions: Sequence[LabelledPrediction], console: Console) -> None:
    """Prints all predictions as one table."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("file", overflow="fold")
    table.add_column("prediction", style="bold")
    table.add_column("probability", justify="right")
    if any(len(prediction.top) > 1 for prediction in predictions):
        table.add_column("then")
    explanations = [prediction.explanation for prediction in predictions if prediction.explanation is not None]
    pictured = any(neighbor.images for explanation in explanations for neighbor in explanation.neighbors)
    if explanations:
        table.add_column("without adaptation")
        table.add_column(f"neighbors (entry, share{'; training images, nearest first' if pictured else ''})")
    for prediction in predictions:
        best, *others = prediction.top
        # Text, not str: brackets in file names and labels are no markup.
        cells = [Text(printable(prediction.file)), Text(printable(best.label)), Text(_percent(best))]
        if others:
            cells.append(Text(printable(", ".join(f"{label.label} {_percent(label)}" for label in others))))
        if prediction.explanation is not None:
            neighbors = (printable(_neighbor(neighbor)) for neighbor in prediction.explanation.neighbors)
            separator = "\n" if pictured else ", "
            cells += [Text(printable(_unadapted(prediction.explanation))), Text(separator.join(neighbors))]
        table.add_row(*cells)
    console.print(table)


def write_json(predictions: Sequence[LabelledPrediction], stream: TextIO) -> None:
    """Writes a JSON list with one object for each prediction."""
    json.dump([prediction.to_json() for prediction in predictions], stream, indent=2)
    stream.write("\n")


def _unadapted(explanation: Explanation) -> str:
    return f"{explanation.unadapted_label} {explanation.unadapted_probability:.1%}"


def _neighbor(neighbor: Neighbor) -> str:
    """Formats ``LABEL (#ENTRY, SHARE; training images LABEL at POSITION …)``."""
    images = ", ".join(f"{image.label} at {image.position}" for image in neighbor.images)
    training = f"; training images {images}" if images else ""
    return f"{neighbor.label} (#{neighbor.entry}, {neighbor.weight:.1%}{training})"


def _percent(label: Label) -> str:
    return f"{label.probability:.1%}"

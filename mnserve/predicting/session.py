"""What ``mnserve predict`` does: open the model, predict every file, report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from mnserve.atomic_files import check_writable, write_atomically
from mnserve.errors import OutputError
from mnserve.predicting import report
from mnserve.predicting.answers import LabelledPrediction
from mnserve.predicting.models import CalledModel, open_model
from mnserve.predicting.page import ExplanationPage
from mnserve.predicting.predictor import Failure, FileOutcome, Predictor
from mnserve.predicting.settings import PredictSettings
from mnserve.predicting.training_images import TrainingImages
from mnserve.predicting.training_images_file import read_training_images
from mnserve.text.names import printable


def predict(settings: PredictSettings) -> int:
    """Predicts every file that can be predicted and reports the others on standard error.

    Returns:
        0 when every file was predicted, 1 otherwise.

    Raises:
        MnServeError: the model cannot be had, does not take images, or the page cannot be written.
    """
    console = Console(highlight=False, soft_wrap=True)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    if settings.html is not None:
        check_writable(Path(settings.html))
    with open_model(
        settings.model, url=settings.url, timeout=settings.timeout, connection=settings.connection
    ) as model:
        page = None if settings.html is None else ExplanationPage(model.config.name)
        predictor = Predictor(
            model,
            top=settings.top,
            resize=settings.resize,
            explain=settings.explain,
            images=_training_images(settings, model),
            show=(lambda prediction, pixels: None) if page is None else page.add,
        )
        paths, failures = predictor.find(settings.files)
        _check_keeps(settings, paths)
        for failure in failures:
            _say(errors, f"error: {failure.reason}")
        as_table = console.is_terminal and not settings.json
        as_lines = not console.is_terminal and not settings.json
        predictions: list[LabelledPrediction] = []
        for outcome in _with_progress(predictor.predict(paths), len(paths), errors):
            if isinstance(outcome, Failure):
                failures.append(outcome)
                _say(errors, f"error: {outcome.reason}")
            else:
                predictions.append(outcome)
                if as_lines:
                    sys.stdout.write(report.line(outcome) + "\n")
        if page is not None and settings.html is not None and predictions:
            # Files first: standard output may be closed or full by now.
            write_atomically(Path(settings.html), page.html().encode())
        if as_table and predictions:
            report.print_table(predictions, Console())
        elif settings.json:
            report.write_json(predictions, sys.stdout)
        sys.stdout.flush()
        for note in predictor.notes:
            _say(errors, f"note: {note}")
        if page is not None and page.left_out:
            _say(errors, f"note: {settings.html} shows the first {len(page)} of {len(predictions)} images")
    return _exit_code(predictions, failures, errors)


def _training_images(settings: PredictSettings, model: CalledModel) -> TrainingImages | None:
    """The training images of the neighbors: of the file that was named, or else of the one beside the model."""
    if not settings.explain:
        return None
    file = model.training_images if settings.neighbors is None else Path(settings.neighbors)
    return None if file is None else read_training_images(file)


def _with_progress(outcomes: Iterable[FileOutcome], total: int, console: Console) -> Iterable[FileOutcome]:
    """A progress bar on a terminal, nothing elsewhere."""
    return track(
        outcomes,
        total=total,
        description="predicting",
        console=console,
        transient=True,
        disable=not console.is_terminal or total < 2,
    )


def _check_keeps(settings: PredictSettings, images: Sequence[Path]) -> None:
    """Whether the page would take the place of something that is read.

    Raises:
        OutputError: it would.
    """
    if settings.html is None or not os.path.exists(settings.html):
        return
    neighbors = [] if settings.neighbors is None else [Path(settings.neighbors)]
    for read in (*images, *neighbors):
        if os.path.exists(read) and os.path.samefile(read, settings.html):
            raise OutputError(f"--html {settings.html} is one of the files to read, {read}; give it another name")


def _exit_code(predictions: Sequence[LabelledPrediction], failures: Sequence[Failure], console: Console) -> int:
    if not failures:
        return 0
    count = sum(failure.files for failure in failures)
    if predictions or count > 1:
        _say(console, f"{len(predictions)} predicted, {count} not")
    return 1


def _say(console: Console, text: str) -> None:
    console.print(f"mnserve predict: {printable(text)}", markup=False, emoji=False)

"""Work of ``mnserve predict``: open the model, predict every file or row, report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from mnserve.atomic_files import check_writable, write_atomically
from mnserve.errors import OutputError, SettingsError
from mnserve.predicting import report
from mnserve.predicting.answers import LabelledPrediction
from mnserve.predicting.explanations import stated_finding
from mnserve.predicting.models import CalledModel, open_model
from mnserve.predicting.page import MAX_IMAGES, ExplanationPage
from mnserve.predicting.predictor import Failure, FileOutcome, Predictor
from mnserve.predicting.row_session import predict_rows
from mnserve.predicting.settings import PredictSettings
from mnserve.predicting.training_images import TrainingImages
from mnserve.predicting.training_images_file import read_training_images
from mnserve.repository.row_layout import row_layout
from mnserve.text.names import printable


def predict(settings: PredictSettings, *, max_page_images: int = MAX_IMAGES) -> int:
    """Predicts every file, or row of a table, that can be predicted and reports the others on standard error.

    Args:
        settings: Settings of the command line.
        max_page_images: Most images on the page of explanations.

    Returns:
        0 if everything was predicted, 1 otherwise.

    Raises:
        MnServeError: The model cannot be loaded or reached, takes neither images nor rows, or a file cannot be written.
    """
    console = Console(highlight=False, soft_wrap=True)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    for path in (settings.html, settings.output):
        if path is not None:
            check_writable(Path(path))
    with open_model(
        settings.model,
        url=settings.url,
        timeout=settings.timeout,
        connection=settings.connection,
        store=settings.store,
    ) as model:
        layout = row_layout(model.config)
        if layout is not None:
            done = predict_rows(settings, model, layout, lambda text: _print_message(errors, text))
            return _exit_code(*done, errors)
        if settings.output is not None:
            raise SettingsError(
                f"--output is about tables, and model '{model.config.name}' takes images; redirect standard output"
            )
        page = None
        if settings.html is not None:
            page = ExplanationPage(model.config.name, max_page_images, stated_finding(model.config))
        predictor = Predictor(
            model,
            top=settings.top,
            resize=settings.resize,
            explain=settings.explain,
            images=_training_images(settings, model),
            show=(lambda prediction, pixels: None) if page is None else page.add,
        )
        paths, failures = predictor.find(settings.files)
        _check_page_is_no_input(settings, paths)
        for failure in failures:
            _print_message(errors, f"error: {failure.reason}")
        as_table = console.is_terminal and not settings.json
        as_lines = not console.is_terminal and not settings.json
        predictions: list[LabelledPrediction] = []
        for outcome in _with_progress(predictor.predict(paths), len(paths), errors):
            if isinstance(outcome, Failure):
                failures.append(outcome)
                _print_message(errors, f"error: {outcome.reason}")
            else:
                predictions.append(outcome)
                if as_lines:
                    sys.stdout.write(report.line(outcome) + "\n")
        if page is not None and settings.html is not None and predictions:
            # The file comes first, since standard output may be closed or full by now.
            write_atomically(Path(settings.html), page.html().encode())
        if as_table and predictions:
            report.print_table(predictions, Console())
        elif settings.json:
            report.write_json(predictions, sys.stdout)
        sys.stdout.flush()
        for note in predictor.notes:
            _print_message(errors, f"note: {note}")
        if page is not None and page.left_out:
            _print_message(errors, f"note: {settings.html} shows the first {len(page)} of {len(predictions)} images")
    return _exit_code(len(predictions), sum(failure.files for failure in failures), errors)


def _training_images(settings: PredictSettings, model: CalledModel) -> TrainingImages | None:
    """Reads the training images of the neighbors: the file of --neighbors, or else the one beside the model."""
    if not settings.explain:
        return None
    file = model.training_images if settings.neighbors is None else Path(settings.neighbors)
    return None if file is None else read_training_images(file)


def _with_progress(outcomes: Iterable[FileOutcome], total: int, console: Console) -> Iterable[FileOutcome]:
    """Shows a progress bar on a terminal, and no progress elsewhere."""
    return track(
        outcomes,
        total=total,
        description="predicting",
        console=console,
        transient=True,
        disable=not console.is_terminal or total < 2,
    )


def _check_page_is_no_input(settings: PredictSettings, images: Sequence[Path]) -> None:
    """Checks that the page does not replace a file that is read.

    Raises:
        OutputError: The page has the name of an image or of the file of training images.
    """
    if settings.html is None or not os.path.exists(settings.html):
        return
    neighbors = [] if settings.neighbors is None else [Path(settings.neighbors)]
    for path in (*images, *neighbors):
        if os.path.exists(path) and os.path.samefile(path, settings.html):
            raise OutputError(f"--html {settings.html} is one of the files to read, {path}; give it another name")


def _exit_code(predicted: int, failed: int, console: Console) -> int:
    if not failed:
        return 0
    if predicted or failed > 1:
        _print_message(console, f"{predicted} predicted, {failed} not")
    return 1


def _print_message(console: Console, text: str) -> None:
    console.print(f"mnserve predict: {printable(text)}", markup=False, emoji=False)

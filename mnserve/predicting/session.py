"""What ``mnserve predict`` does: open the model, predict every file, report."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import track

from mnserve.names import printable
from mnserve.predicting import report
from mnserve.predicting.answers import Prediction
from mnserve.predicting.models import open_model
from mnserve.predicting.predictor import Failure, Outcome, Predictor
from mnserve.predicting.settings import PredictSettings

__all__ = ["predict"]


def predict(settings: PredictSettings) -> int:
    """Predicts every file that can be predicted and reports the others on standard error.

    Returns:
        0 when every file was predicted, 1 otherwise.

    Raises:
        MnServeError: the model cannot be had, or does not take images; nothing was predicted.
    """
    console = Console(highlight=False, soft_wrap=True)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    with open_model(settings.model, url=settings.url, timeout=settings.timeout) as model:
        predictor = Predictor(model, top=settings.top, resize=settings.resize, explain=settings.explain)
        paths, failures = predictor.find(settings.files)
        for failure in failures:
            _say(errors, f"error: {failure.reason}")
        as_table = console.is_terminal and not settings.json
        as_lines = not console.is_terminal and not settings.json
        predictions: list[Prediction] = []
        for outcome in _with_progress(predictor.predict(paths), len(paths), errors):
            if isinstance(outcome, Failure):
                failures.append(outcome)
                _say(errors, f"error: {outcome.reason}")
            else:
                predictions.append(outcome)
                if as_lines:
                    sys.stdout.write(report.line(outcome) + "\n")
        if as_table and predictions:
            report.print_table(predictions, Console())
        elif settings.json:
            report.write_json(predictions, sys.stdout)
        sys.stdout.flush()
        for note in predictor.notes:
            _say(errors, f"note: {note}")
    return _exit_code(predictions, failures, errors)


def _with_progress(outcomes: Iterable[Outcome], total: int, console: Console) -> Iterable[Outcome]:
    """A progress bar on a terminal, nothing elsewhere."""
    return track(
        outcomes,
        total=total,
        description="predicting",
        console=console,
        transient=True,
        disable=not console.is_terminal or total < 2,
    )


def _exit_code(predictions: Sequence[Prediction], failures: Sequence[Failure], console: Console) -> int:
    if not failures:
        return 0
    count = sum(failure.files for failure in failures)
    if predictions or count > 1:
        _say(console, f"{len(predictions)} predicted, {count} not")
    return 1


def _say(console: Console, text: str) -> None:
    console.print(f"mnserve predict: {printable(text)}", markup=False, emoji=False)

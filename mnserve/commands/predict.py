"""``mnserve predict``: image files or tables in, predictions out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mnserve.commands.command import CommandSpec

if TYPE_CHECKING:
    from mnserve.predicting.settings import PredictSettings


def settings_class() -> type[PredictSettings]:
    """Imports the settings; the overview of all commands does without."""
    from mnserve.predicting.settings import PredictSettings

    return PredictSettings


def run(settings: PredictSettings) -> int:
    """Predicts every file or row that can be predicted and reports the others on standard error.

    Returns:
        0 if everything was predicted, 1 otherwise.

    Raises:
        MnServeError: The model cannot be loaded or reached, takes neither images nor rows, or a file cannot be written.
    """
    from mnserve.predicting.session import predict  # loads the engine and gRPC, which --help can do without

    return predict(settings)


PREDICT: Final = CommandSpec(
    name="predict",
    summary="predict image files, or rows of a table, with a served model",
    examples="""\
  mnserve predict digits-mn image.png
  mnserve predict repository/housing rows.csv --output predicted.csv
  mnserve predict build/demo/repository/digits-mn folder-of-images --top 1 --json
  mnserve predict repository/digits-mn image.png --explain --html why.html""",
    settings=settings_class,
    run=run,
)

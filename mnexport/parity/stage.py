"""Stage that compares a static form and its files with the trained model."""

from collections.abc import Sequence

from mnexport.export_source import ExportSource
from mnexport.forms.plan import StaticModel
from mnexport.model_files import ModelFile
from mnexport.parity.checks import parity_checks
from mnexport.parity.comparison import compare
from mnexport.parity.examples import ParityExamples
from mnexport.parity.report import ParityReport
from mnexport.parity.tolerance import ParityLimits
from mnexport.progress import OnProgress


def check_parity(
    source: ExportSource,
    static: StaticModel,
    files: Sequence[ModelFile],
    examples: ParityExamples,
    limits: ParityLimits,
    on_progress: OnProgress,
) -> ParityReport:
    """Compare a form and its files with the trained model at batch 1, 2 and a large one; failures raise nothing.

    Args:
        source: the trained model.
        static: its static form.
        files: written from the form.
        examples: to compare on.
        limits: differences that are allowed, and the large batch.
        on_progress: gets a line before each comparison.

    Raises:
        GraphError: ONNX Runtime does not load a file.
    """
    checks = parity_checks(source, static, files, limits)
    return compare(
        checks,
        examples.inputs,
        large_batch=limits.large_batch,
        source=examples.source,
        on_progress=lambda message: on_progress(f"checking parity: {message}"),
    )

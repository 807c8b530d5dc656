"""Stage that lowers the precision of files that passed parity, and measures the accuracy that this costs."""

from pathlib import Path

from mnexport.export_source import ExportSource
from mnexport.forms.plan import StaticModel
from mnexport.model_files import write_core_file
from mnexport.parity.runners import Examples
from mnexport.precision.accuracy import AccuracyReport, Measure, Precision
from mnexport.precision.lowering import lower
from mnexport.progress import OnProgress


def lower_files(
    source: ExportSource,
    static: StaticModel,
    file: Path,
    precision: Precision,
    calibration: Examples,
    measure: Measure,
    on_progress: OnProgress,
) -> AccuracyReport:
    """Rewrite ``model.onnx`` and ``core.onnx`` in a lower precision.

    Args:
        source: what is exported.
        static: its static form in float32.
        file: ``model.onnx``.
        precision: of the new files.
        calibration: images that ranges of activations are taken from.
        measure: accuracy of answers.
        on_progress: gets a line before the rewriting.

    Raises:
        ParityError: more accuracy is lost than is allowed.
        GraphError: the file cannot be rewritten.
    """
    on_progress(f"lowering the backbone to {precision.dtype}")
    metadata = source.metadata(static.form)
    engine, lowered = lower(static.module, file, source.signature, precision, source.opset, metadata, calibration)
    accuracy = measure(engine, lowered)
    accuracy.raise_failure()
    write_core_file(file, source.signature)
    return accuracy

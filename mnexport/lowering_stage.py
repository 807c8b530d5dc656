"""The stage that lowers the precision of files that are proven, and measures what that costs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mnexport.accuracy import AccuracyReport, measure_accuracy
from mnexport.checking import CPU_NAME, CheckedExamples
from mnexport.forms.plan import StaticModel
from mnexport.lowering import lower
from mnexport.options import ExportOptions
from mnexport.parity import Examples, Runner, onnxruntime_runner
from mnexport.proving import model_files
from mnexport.quantization import quantize
from mnexport.subject import Subject


def lower_files(
    subject: Subject,
    static: StaticModel,
    trained: Runner,
    file: Path,
    calibration: Examples,
    examples: CheckedExamples,
    tell: Callable[[str], None],
) -> AccuracyReport:
    """Rewrite the files of a model in the precision that is asked for.

    Args:
        subject: what is exported.
        static: its static form in float32.
        trained: answers of the trained model.
        file: ``model.onnx``, proven in float32; the files beside it are rewritten too.
        calibration: images that ranges of activations are taken from.
        examples: with labels, to measure accuracy on.
        tell: told what is being done.

    Raises:
        ParityError: more accuracy is lost than is allowed.
        GraphError: a file cannot be rewritten.
    """
    options = subject.options
    tell(f"lowering the backbone to {options.precision.dtype}")
    metadata = subject.metadata(static.form)
    lowered = lower(
        static.module, file, subject.signature, options.precision, options.graph.opset, metadata, calibration
    )
    files = model_files(file, subject.signature)
    accuracy = _accuracy(trained, lowered, examples, options)
    accuracy.raise_failure()
    if CPU_NAME in files:
        cpu, core = files[CPU_NAME]
        quantize(cpu, core, calibration)
        again = _accuracy(trained, ("onnxruntime", onnxruntime_runner(cpu, core)), examples, options)
        again.raise_failure()
    return accuracy


def _accuracy(
    trained: Runner, lowered: tuple[str, Runner], examples: CheckedExamples, options: ExportOptions
) -> AccuracyReport:
    inputs, targets = examples.examples.inputs, examples.examples.targets
    return measure_accuracy(
        options.precision, trained, lowered, (inputs, targets.astype(np.int64)), options.max_batch_size
    )

"""The stage that lowers the precision of files that are proven, and measures what that costs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from mnexport.cpu_file import CpuFileReport, without_cpu_file
from mnexport.errors import GraphError
from mnexport.export_source import ExportSource
from mnexport.graph import describe
from mnexport.parity.checks import CheckedExamples
from mnexport.parity.comparison import Examples, Runner, onnxruntime_runner
from mnexport.precision.accuracy import AccuracyReport, measure_accuracy
from mnexport.precision.lowering import lower
from mnexport.precision.quantization import quantize
from mnexport.proving import CheckedExport, model_files
from mnexport.repository.layout import CPU_NAME
from mnexport.signature import ExportSignature

Measure = Callable[[tuple[str, Runner]], AccuracyReport]
"""Name of an engine and its answers → what they cost."""


def lower_files(
    subject: ExportSource,
    proof: CheckedExport,
    file: Path,
    calibration: Examples,
    examples: CheckedExamples,
    on_progress: Callable[[str], None],
) -> tuple[CheckedExport, AccuracyReport]:
    """Rewrite the files of a model in the precision that is asked for.

    Args:
        subject: what is exported.
        proof: its static form and files in float32.
        file: ``model.onnx``; the files beside it are rewritten too.
        calibration: images that ranges of activations are taken from.
        examples: with labels, to measure accuracy on.
        tell: told what is being done.

    Returns:
        What is there now, and what it costs.

    Raises:
        ParityError: more accuracy is lost than is allowed.
        GraphError: the file cannot be rewritten.
    """
    options, static = subject.options, proof.static
    inputs, targets = examples.examples.inputs, examples.examples.targets.astype(np.int64)

    def measure(lowered: tuple[str, Runner]) -> AccuracyReport:
        return measure_accuracy(options.precision, proof.trained, lowered, (inputs, targets), options.max_batch_size)

    on_progress(f"lowering the backbone to {options.precision.dtype}")
    metadata = subject.metadata(static.form)
    accuracy = measure(
        lower(static.module, file, subject.signature, options.precision, options.graph.opset, metadata, calibration)
    )
    accuracy.raise_failure()
    files, cpu = model_files(file, subject.signature), proof.cpu
    if CPU_NAME in files:
        cpu = lower_cpu_file(*files[CPU_NAME], calibration, measure)
        if cpu.left_out is not None:
            static = without_cpu_file(static)
    return replace(proof, static=static, graph=describe(file), cpu=cpu), accuracy


def lower_cpu_file(file: Path, signature: ExportSignature, calibration: Examples, measure: Measure) -> CpuFileReport:
    """Quantise ``cpu.onnx``; where that fails or costs too much it is removed, and the model goes without it.

    Args:
        file: in float32.
        signature: of the file.
        calibration: images that ranges of activations are taken from.
        measure: what answers cost.
    """
    try:
        quantize(file, signature, calibration)
        accuracy = measure(("onnxruntime", onnxruntime_runner(file, signature)))
        if accuracy.failure is None:
            return CpuFileReport(accuracy=accuracy)
        reason = accuracy.failure
    except GraphError as error:
        reason = str(error)
    file.unlink()
    return CpuFileReport(left_out=reason)

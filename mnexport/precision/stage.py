"""Stage that lowers the precision of files that passed parity, and measures the accuracy that this costs."""

from pathlib import Path

import torch

from mnexport.export_source import ExportSource
from mnexport.forms.plan import StaticModel
from mnexport.graft.lowering import SixteenBits, lowered_front
from mnexport.model_files import write_core_file
from mnexport.parity.runners import Examples, Runner, onnxruntime_runner
from mnexport.parity.tolerance import Answers
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
    if source.graft is not None and precision.dtype in ("float16", "bfloat16"):
        engine, lowered = _lower_graft(source, static, file, precision.dtype, calibration)
    else:
        engine, lowered = lower(static.module, file, source.signature, precision, source.opset, metadata, calibration)
    accuracy = measure(engine, lowered)
    accuracy.raise_failure()
    write_core_file(file, source.signature)
    return accuracy


def _lower_graft(
    source: ExportSource, static: StaticModel, file: Path, dtype: SixteenBits, calibration: Examples
) -> tuple[str, Runner]:
    """Join the head, in float32, behind the network in 16 bits.

    Returns:
        Name of the engine that computes the answers of the new file, and the answers.
    """
    graft = source.graft
    assert graft is not None
    front = lowered_front(graft, dtype, calibration)
    graft.write(static.module, source.signature, source.metadata(static.form), file, front=front)
    if dtype == "float16":
        return "onnxruntime", onnxruntime_runner(file, source.signature)
    layers = front.layers
    assert layers is not None
    names = [output.name for output in source.signature.outputs]

    @torch.inference_mode()
    def run(examples: Examples) -> Answers:
        outputs = static.module(layers(graft.network.pixels(torch.from_numpy(examples))))
        return {name: tensor.numpy() for name, tensor in zip(names, outputs, strict=True)}

    # ONNX Runtime's CPU provider has no bfloat16 convolution.
    return "PyTorch", run

"""Stage of ``cpu.onnx``: the model without its explanation, rewritten for CPUs.

The file has keys in 8 bits where the low-rank form found that they keep the tolerance, predicted similarities added up
where they belong, and iFiLM in the layout of this processor's convolutions. It is an addition: where it cannot be
written, disagrees or loses too much accuracy, the model is published without it.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torch import nn

from mnexport.blocked.assemble import write_blocked
from mnexport.cpu_file.agreement import same_answers
from mnexport.cpu_file.report import CpuFileReport
from mnexport.cpu_file.scattered import scattered_for_cpus
from mnexport.errors import GraphError
from mnexport.export_source import ExportSource
from mnexport.forms.folded_norm import FoldedNorm
from mnexport.forms.low_rank import integer_keys, integer_tables
from mnexport.forms.plan import StaticModel
from mnexport.model_files import ModelFile, model_files, write_model
from mnexport.parity.checks import check_name
from mnexport.parity.report import ParityReport
from mnexport.parity.runners import Examples, onnxruntime_runner
from mnexport.precision.accuracy import DType, Measure
from mnexport.precision.quantization import quantize
from mnexport.progress import OnProgress
from mnexport.repository.layout import CPU_NAME
from mnexport.signature import ExportSignature

_WITH_INTEGER_KEYS: tuple[DType, ...] = ("float32", "int8")
"""Other dtypes are for GPUs, which keys in 8 bits do not help."""


def write_cpu_file(
    source: ExportSource, static: StaticModel, file: Path, dtype: DType, on_progress: OnProgress
) -> CpuFileReport | None:
    """Write ``cpu.onnx`` where a form has keys in 8 bits, predicted similarities or iFiLM.

    A file of an earlier form is removed.

    Args:
        source: what is exported.
        static: its static form.
        file: ``model.onnx``, with ``core.onnx`` beside it where outputs are on request.
        dtype: that the backbone will have.
        on_progress: gets a line before each step.

    Returns:
        A report; None where the form has nothing that CPUs run otherwise.

    Raises:
        GraphError: the form for CPUs does not become a valid ONNX file.
        OSError: the disk is full.
    """
    cpu_path = file.with_name(CPU_NAME)
    cpu_path.unlink(missing_ok=True)
    module = static.cpu_module if dtype in _WITH_INTEGER_KEYS else None
    scattered = 0
    if dtype == "float32":
        ordinary = getattr(static.module, "deployed", static.module)  # without its explanation
        form, scattered = scattered_for_cpus(ordinary if module is None else module)
        module = form if scattered else module
    if module is not None:
        on_progress("tracing the form for CPUs")
        signature, metadata = source.signature.without_explanation(), source.metadata(static.form)
        translations = integer_keys.onnx_translations() | integer_tables.onnx_translations()
        write_model(source, module, signature, metadata, cpu_path, translations)
    layers = sum(isinstance(layer, FoldedNorm) for layer in _layers(source, static))
    if dtype == "float32" and layers:
        on_progress("keeping the maps of iFiLM in the layout of this processor")
        return replace(_block(file, source.signature, layers), scattered=scattered)
    return CpuFileReport(scattered=scattered) if cpu_path.exists() else None


def cpu_files(file: Path, signature: ExportSignature) -> tuple[ModelFile, ...]:
    """List ``cpu.onnx`` beside ``model.onnx``, if it was written."""
    cpu_path = file.with_name(CPU_NAME)
    if not cpu_path.exists():
        return ()
    return (ModelFile(path=cpu_path, signature=signature.without_explanation(), approximates=True),)


def drop_where_it_disagrees(
    file: Path, report: CpuFileReport | None, parity: ParityReport
) -> tuple[CpuFileReport | None, ParityReport]:
    """Remove ``cpu.onnx`` where it fails the parity check.

    Args:
        file: ``model.onnx``.
        report: on ``cpu.onnx``.
        parity: of all files.

    Returns:
        The report as it is now, and the comparisons of the files that are left.
    """
    name = check_name(CPU_NAME)
    failed = [item for item in parity.failed if item.what == name]
    if not failed:
        return report, parity
    file.with_name(CPU_NAME).unlink()
    others = tuple(item for item in parity.comparisons if item.what != name)
    left_out = CpuFileReport(left_out="; ".join(item.failure for item in failed))
    return left_out, replace(parity, comparisons=others)


def lower_cpu_file(file: ModelFile, calibration: Examples, measure: Measure) -> CpuFileReport:
    """Quantise ``cpu.onnx``; where that fails or costs too much accuracy, the file is removed.

    Args:
        file: in float32.
        calibration: images that ranges of activations are taken from.
        measure: accuracy of answers.
    """
    try:
        quantize(file.path, file.signature, calibration)
        accuracy = measure("onnxruntime", onnxruntime_runner(file.path, file.signature))
        if accuracy.failure is None:
            return CpuFileReport(accuracy=accuracy)
        reason = accuracy.failure
    except GraphError as error:
        reason = str(error)
    file.path.unlink()
    return CpuFileReport(left_out=reason)


def with_published_keys(static: StaticModel, file: Path) -> StaticModel:
    """Strike keys in 8 bits from the record of a form whose ``cpu.onnx`` is not published."""
    if file.with_name(CPU_NAME).exists() or not static.record.get("integer_keys"):
        return static
    return replace(static, record=static.record | {"integer_keys": None})


def _layers(source: ExportSource, static: StaticModel) -> Iterator[nn.Module]:
    """Layers of a static form, and of a network of PyTorch in front of it."""
    yield from static.module.modules()
    if source.graft is not None and source.graft.front.layers is not None:
        yield from source.graft.front.layers.modules()


def _block(file: Path, signature: ExportSignature, layers: int) -> CpuFileReport:
    """Write ``cpu.onnx`` with iFiLM in the blocked layout; the ordinary file stays where that is not possible."""
    cpu_path = file.with_name(CPU_NAME)
    ordinary = cpu_path if cpu_path.exists() else model_files(file, signature)[-1].path
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        blocked = Path(folder) / CPU_NAME
        try:
            report = write_blocked(ordinary, blocked)
            if report is not None and not same_answers(ordinary, blocked, signature.without_explanation()):
                raise GraphError("it answers otherwise than the ordinary graph")
        except OSError:  # a full disk
            raise
        except Exception as error:  # noqa: BLE001 (an addition must not cost the model, whatever is wrong with it)
            return CpuFileReport(unblocked=" ".join(str(error).split()))
        if report is None:
            why = "its maps would leave that layout all the same, ONNX Runtime has none here, or the file is too large"
            return CpuFileReport(unblocked=why)
        blocked.replace(cpu_path)
        return CpuFileReport.of_blocked(report, layers)

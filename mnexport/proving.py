"""The stage that writes a static form as ONNX files and compares them with the trained model."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mnexport.blocked.agreement import same_answers
from mnexport.blocked.assemble import write_blocked
from mnexport.cpu_file import CpuFileReport, without_cpu_file
from mnexport.errors import GraphError
from mnexport.export_source import ExportSource
from mnexport.forms.folded_norm import FoldedNorm
from mnexport.forms.low_rank.integer_keys import onnx_translations
from mnexport.forms.plan import StaticModel
from mnexport.graph import GraphReport, write_core, write_onnx
from mnexport.parity.checks import CheckedExamples, of_file, parity_checks, run_checks
from mnexport.parity.comparison import ParityReport, Runner
from mnexport.repository.layout import CORE_NAME, CPU_NAME
from mnexport.signature import ExportSignature


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedExport:
    """A static form, its files, and how near they come to the trained model.

    Args:
        static: the form.
        graph: size of its graph.
        parity: how close form and files are; whoever publishes them has to see that it passed.
        trained: answers of the trained model.
        cpu: what became of the file for CPUs; None where the form has none.
    """

    static: StaticModel
    graph: GraphReport
    parity: ParityReport
    trained: Runner
    cpu: CpuFileReport | None


def prove(
    subject: ExportSource,
    static: StaticModel,
    examples: CheckedExamples,
    file: Path,
    on_progress: Callable[[str], None],
) -> CheckedExport:
    """Write a static form in float32 and compare it with the trained model; nothing is raised where they differ.

    Args:
        subject: what is exported.
        static: its static form.
        examples: to compare on.
        file: ``model.onnx``; further files are written beside it.
        tell: told what is being done.

    Raises:
        GraphError: the form does not become a valid ONNX file.
    """
    graph = _write(subject, static, file, on_progress)
    cpu = _write_for_cpus(subject, static, file, on_progress)
    files = model_files(file, subject.signature)
    checks = parity_checks(subject.model, static, files, subject.options, subject.artifact)
    parity = run_checks(checks, examples, subject.options, on_progress)
    failed = [item for item in parity.failed if item.what == of_file(CPU_NAME)]
    if failed:  # an addition: where it alone does not agree, the model goes without it
        files[CPU_NAME][0].unlink()
        kept = tuple(item for item in parity.comparisons if item.what != of_file(CPU_NAME))
        parity = replace(parity, comparisons=kept)
        cpu = CpuFileReport(left_out="; ".join(item.failure for item in failed))
    if not file.with_name(CPU_NAME).exists():
        static = without_cpu_file(static)
    return CheckedExport(static=static, graph=graph, parity=parity, trained=checks[0].expected, cpu=cpu)


def model_files(file: Path, signature: ExportSignature) -> dict[str, tuple[Path, ExportSignature]]:
    """The files of a version: the whole model, and what everyone gets where that is less, written anew."""
    files = {file.name: (file, signature)}
    core = signature.without_explanation()
    if core != signature:
        write_core(file, signature, file.with_name(CORE_NAME))
        files[CORE_NAME] = file.with_name(CORE_NAME), core
    if file.with_name(CPU_NAME).exists():
        files[CPU_NAME] = file.with_name(CPU_NAME), core
    return files


def _write(subject: ExportSource, static: StaticModel, file: Path, on_progress: Callable[[str], None]) -> GraphReport:
    on_progress(f"tracing the {static.form} form")
    return write_onnx(
        static.module, subject.signature, subject.options.graph.opset, subject.metadata(static.form), file
    )


def _write_for_cpus(
    subject: ExportSource, static: StaticModel, file: Path, on_progress: Callable[[str], None]
) -> CpuFileReport | None:
    """``cpu.onnx``, where a form has keys in 8 bits or iFiLM; one of an earlier form is removed.

    Returns:
        What became of it; None where a form has neither.
    """
    cpu, dtype = file.with_name(CPU_NAME), subject.options.precision.dtype
    cpu.unlink(missing_ok=True)
    core = subject.signature.without_explanation()
    if static.cpu_module is not None and dtype in ("float32", "int8"):
        on_progress("tracing it with keys in 8 bits")
        metadata = subject.metadata(static.form)
        write_onnx(static.cpu_module, core, subject.options.graph.opset, metadata, cpu, onnx_translations())
    layers = sum(isinstance(layer, FoldedNorm) for layer in static.module.modules())
    if dtype != "float32" or not layers:
        return CpuFileReport() if cpu.exists() else None
    on_progress("keeping the maps of iFiLM in the layout of this processor")
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        ordinary, blocked = Path(folder) / "ordinary.onnx", Path(folder) / CPU_NAME
        if cpu.exists():
            ordinary = cpu
        elif core == subject.signature:
            ordinary = file
        else:
            write_core(file, subject.signature, ordinary)
        try:
            report = write_blocked(ordinary, blocked)
            if report is not None and not same_answers(ordinary, blocked, core):
                raise GraphError("it answers otherwise than the ordinary graph")
        except OSError:  # a full disk
            raise
        except Exception as error:  # noqa: BLE001 (an addition must not cost the model, whatever is wrong with it)
            return CpuFileReport(unblocked=" ".join(str(error).split()))
        if report is None:
            why = "its maps would leave that layout all the same, ONNX Runtime has none here, or the file is too large"
            return CpuFileReport(unblocked=why)
        blocked.replace(cpu)
        return CpuFileReport.of_blocked(report, layers)

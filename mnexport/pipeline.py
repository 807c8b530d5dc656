"""Pipeline of an export: artifact → static form → ONNX files → parity → precision → engine → model repository."""

from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from mnexport.calibration import calibration_examples, check_calibration
from mnexport.cpu_file.report import CpuFileReport
from mnexport.cpu_file.stage import (
    cpu_files,
    drop_where_it_disagrees,
    lower_cpu_file,
    with_published_keys,
    write_cpu_file,
)
from mnexport.export_record import export_record
from mnexport.export_source import ExportSource, read_source
from mnexport.exported_card import exported_card
from mnexport.few_shot.pipeline import export_few_shot
from mnexport.forms.dispatch import static_form
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.forms.similarity_report import SimilarityReport, similarity_report
from mnexport.graft.report import GraftReport, check_graft
from mnexport.graph import GraphReport, describe
from mnexport.model_files import model_files, write_files
from mnexport.options import ExportOptions
from mnexport.parity.examples import ParityExamples, parity_examples
from mnexport.parity.report import ParityReport
from mnexport.parity.runners import trained_runner
from mnexport.parity.stage import check_parity
from mnexport.parity.tolerance import ParityLimits
from mnexport.precision.accuracy import AccuracyReport, accuracy_measure
from mnexport.precision.lowering import check_lowerable
from mnexport.precision.stage import lower_files
from mnexport.progress import OnProgress, no_progress
from mnexport.report import ExportReport
from mnexport.repository.layout import MODEL_NAME
from mnexport.repository.model_card import ModelCard
from mnexport.repository.neighbors import stored_neighbors, write_neighbors
from mnexport.repository.place import check_place
from mnexport.repository.publishing import locked, publish_files
from mnexport.repository.target import check_target
from mnexport.scratch import scratch_folder
from mnexport.tensorrt import ENGINE_NAMES, EngineReport, build_engine, check_inputs, check_installed


def export(options: ExportOptions, on_progress: OnProgress = no_progress) -> ExportReport:
    """Export an artifact, check the export, and publish it; if any stage fails nothing is published.

    Args:
        options: what to export and how.
        on_progress: gets a line of text before each step.

    Raises:
        MnExportError: an option, the graph, parity, the engine or the repository; :mod:`mnexport.errors` has the tree.
        MnTrainError: the artifact or its data cannot be read.
    """
    if options.few_shot:
        return export_few_shot(options, on_progress)
    check_place(options.target)
    if options.engine is not None:
        check_installed(options.engine.format)
    on_progress(f"reading {options.artifact}")
    source = read_source(
        options.artifact,
        options.target.name,
        options.graph,
        vanilla=options.vanilla,
        explain=options.explain,
        backbone=options.backbone,
    )
    if options.engine is not None:
        check_inputs(source.signature, options.engine.format)
    neighbors = stored_neighbors(source.artifact) if options.explain else None
    plan = _plan(options, source, on_progress)
    static = static_form(source.model, plan, source.artifact.preprocessing)
    check_lowerable(static.module, options.precision, source.graft)
    # Checked before any work is done, and once more when the work is finished: another export may come first.
    with locked(options.target):
        check_target(options.target, _card(options, source, static.form))
    examples = parity_examples(source, options.parity_images, options.data_path, on_progress)
    with scratch_folder() as scratch:
        work = _Work(
            options=options, source=source, examples=examples, file=scratch / MODEL_NAME, on_progress=on_progress
        )
        checked = _write_and_check(work, plan, static)
        checked, accuracy = _lower(work, plan, checked)
        engine = _build_engine(work)
        report = ExportReport(
            path=work.file,
            form=checked.static.form,
            family=source.family,
            adaptation=checked.static.record,
            graph=checked.graph,
            parity=checked.parity,
            accuracy=accuracy,
            cpu=checked.cpu,
            engine=engine,
            neighbors=write_neighbors(neighbors, source.artifact, scratch),
            similarity=_similarity(source, checked.static),
            graft=checked.graft,
        )
        return _publish(work, report)


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedExport:
    """A static form with its files and their comparison with the trained model.

    Args:
        static: the form.
        graph: size of its graph.
        parity: differences of form and files; :meth:`ParityReport.raise_failures` comes before publishing.
        cpu: report on the file for CPUs; None where the form has none.
        graft: report on the frozen network in front of it; None where there is none.
    """

    static: StaticModel
    graph: GraphReport
    parity: ParityReport
    cpu: CpuFileReport | None
    graft: GraftReport | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Work:
    """Work in progress.

    Args:
        options: of the export.
        source: what is exported.
        examples: to check it on.
        file: ``model.onnx`` in the scratch folder; all files of the version lie beside it.
        on_progress: gets a line of text before each step.
    """

    options: ExportOptions
    source: ExportSource
    examples: ParityExamples
    file: Path
    on_progress: OnProgress


def _similarity(source: ExportSource, static: StaticModel) -> SimilarityReport | None:
    """Report on the layers of the backbone, where the model has one."""
    if source.graft is not None:
        return source.graft.similarity()
    deployed = getattr(static.module, "deployed", static.module)
    trained, backbone = (getattr(owner, "backbone", None) for owner in (source.model, deployed))
    if not isinstance(trained, nn.Module) or not isinstance(backbone, nn.Module):
        return None
    return similarity_report(trained, backbone, source.signature.stored_shape)


def _plan(options: ExportOptions, source: ExportSource, on_progress: OnProgress) -> FormPlan:
    check_calibration(source.graft, options.calibration, options.precision.dtype)
    calibration = None
    if options.calibrates:
        calibration = calibration_examples(source.artifact, options.calibration, options.data_path, on_progress)
    return FormPlan(
        form=options.form,
        tolerance=options.approximation_tolerance,
        rank=options.rank,
        explain=options.explain,
        calibration=calibration,
    )


def _write_and_check(work: _Work, plan: FormPlan, static: StaticModel) -> CheckedExport:
    """Write the files of a form and check that they answer as the trained model does.

    An approximation that ``auto`` chose and that fails the check gives way to the exact form.

    Raises:
        ParityError: form or files do not answer as the trained model does.
    """
    checked = _checked(work, static)
    if static.approximate and plan.form == "auto" and not checked.parity.passed:
        source = work.source
        exact = static_form(source.model, replace(plan, calibration=None), source.artifact.preprocessing)
        failures = "; ".join(item.failure for item in checked.parity.failed)
        reason = f"exact: the low_rank form did not pass the parity check ({failures})"
        checked = _checked(work, replace(exact, record={"reason": reason}))
    checked.parity.raise_failures()
    return checked


def _checked(work: _Work, static: StaticModel) -> CheckedExport:
    """Write the files of a form and compare them; failed comparisons raise nothing."""
    options, source, file = work.options, work.source, work.file
    limits = ParityLimits(
        tolerance=options.parity_tolerance,
        approximation_tolerance=options.approximation_tolerance,
        large_batch=options.batch_rows,
    )
    graph = write_files(source, static, file, work.on_progress)
    cpu = write_cpu_file(source, static, file, options.precision.dtype, work.on_progress)
    files = (*model_files(file, source.signature), *cpu_files(file, source.signature))
    graft = check_graft(source.graft, [item.path for item in files], graph.nodes, limits.large_batch, work.on_progress)
    parity = check_parity(source, static, files, work.examples, limits, work.on_progress)
    cpu, parity = drop_where_it_disagrees(file, cpu, parity)
    return CheckedExport(static=with_published_keys(static, file), graph=graph, parity=parity, cpu=cpu, graft=graft)


def _lower(work: _Work, plan: FormPlan, checked: CheckedExport) -> tuple[CheckedExport, AccuracyReport | None]:
    """Lower the precision of the files; nothing is done where the backbone stays in float32."""
    options, source, file = work.options, work.source, work.file
    if not options.precision.lower:
        return checked, None
    fitted = None if plan.calibration is None or source.graft is not None else plan.calibration.fitted
    calibration = source.samples.inputs[::2] if fitted is None else fitted
    measure = accuracy_measure(options.precision, trained_runner(source), work.examples, options.batch_rows)
    accuracy = lower_files(source, checked.static, file, options.precision, calibration, measure, work.on_progress)
    cpu = checked.cpu
    for cpu_file in cpu_files(file, source.signature):
        cpu = lower_cpu_file(cpu_file, calibration, measure)
    static = with_published_keys(checked.static, file)
    return replace(checked, static=static, graph=describe(file), cpu=cpu), accuracy


def _build_engine(work: _Work) -> EngineReport | None:
    """Build the TensorRT engine beside the ONNX file, if the options have one."""
    engine = work.options.engine
    if engine is None:
        return None
    work.on_progress(f"building the {engine.format} engine")
    return build_engine(work.file, work.source.signature, engine, work.file.with_name(ENGINE_NAMES[engine.format]))


def _publish(work: _Work, report: ExportReport) -> ExportReport:
    """Publish all files of the scratch folder; the report with the path where the model lies now."""
    options, card = work.options, _card(work.options, work.source, report.form)
    check_place(options.target)
    record = export_record(work.source, card, report, options.precision.dtype)
    readme = exported_card(work.source, card, report, record["versions"])
    folder = publish_files(options.target, card, work.file.parent, record, work.on_progress, readme)
    return replace(report, path=folder / report.path.name)


def _card(options: ExportOptions, source: ExportSource, form: str) -> ModelCard:
    return ModelCard(
        signature=source.signature,
        max_batch_size=options.batch_rows,
        family=source.family,
        form=form,
        engine=None if options.engine is None else options.engine.format,
        finding=source.finding if source.signature.explains else "",
    )

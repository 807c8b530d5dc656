"""One export: artifact → static form → ONNX → parity → model repository."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mnexport.calibration import calibration_examples
from mnexport.export_source import ExportSource, read_source
from mnexport.forms.dispatch import static_form
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.options import ExportOptions
from mnexport.parity.checks import CheckedExamples, parity_examples
from mnexport.parity.comparison import ParityReport
from mnexport.precision.accuracy import AccuracyReport
from mnexport.precision.lowering import check_lowerable
from mnexport.precision.stage import lower_files
from mnexport.proving import CheckedExport, prove
from mnexport.report import ExportReport
from mnexport.repository.layout import MODEL_NAME, RECORD_NAME
from mnexport.repository.model_card import ModelCard
from mnexport.repository.neighbors import carried_neighbors, write_neighbors
from mnexport.repository.publishing import locked, publishing
from mnexport.repository.target import check_target, sha256
from mnexport.scratch import scratch_folder
from mnexport.tensorrt import ENGINE_NAMES, EngineReport, build_engine, check_installed
from mntrain.artifact import current_versions

SCHEMA = 2
OnProgress = Callable[[str], None]


def export(options: ExportOptions, on_progress: OnProgress = lambda message: None) -> ExportReport:
    """Export, check, publish; if any stage fails nothing is published.

    Args:
        tell: told what is being done.

    Raises:
        MnExportError, MnTrainError: see their trees.
    """
    if options.engine is not None:
        check_installed(options.engine.format)
    on_progress(f"reading {options.artifact}")
    subject = read_source(options)
    carried = carried_neighbors(options, subject.artifact)
    plan = _plan(subject, on_progress)
    static = static_form(subject.model, plan, subject.artifact.preprocessing)
    check_lowerable(static.module, options.precision)
    # Seen before any work is done; the answer may be another one when the work is finished.
    with locked(options.target):
        check_target(options.target, subject.card(static.form))
    examples = parity_examples(options, subject.artifact, on_progress)
    with scratch_folder() as scratch:
        file = scratch / MODEL_NAME
        proof = _prove(subject, plan, static, examples, file, on_progress)
        proof, accuracy = _lower(subject, plan, proof, examples, file, on_progress)
        engine = _build(subject, file, on_progress)
        report = ExportReport(
            path=file,
            form=proof.static.form,
            family=subject.family,
            adaptation=proof.static.record,
            graph=proof.graph,
            parity=proof.parity,
            accuracy=accuracy,
            cpu=proof.cpu,
            engine=engine,
            neighbors=write_neighbors(carried, subject.artifact, scratch),
        )
        return _publish(subject, report, on_progress)


def _plan(subject: ExportSource, on_progress: OnProgress) -> FormPlan:
    """Which form is asked for, with the examples that it is fitted to."""
    options = subject.options
    return FormPlan(
        form=options.form,
        tolerance=options.approximation,
        rank=options.rank,
        explain=options.explain,
        calibration=calibration_examples(options, subject.artifact, on_progress),
    )


def _prove(
    subject: ExportSource,
    plan: FormPlan,
    static: StaticModel,
    examples: CheckedExamples,
    file: Path,
    on_progress: OnProgress,
) -> CheckedExport:
    """The files of a form that answers as the trained model does.

    An approximation that ``auto`` chose and that does not come near enough gives way to the exact form.

    Raises:
        ParityError: they do not answer as it does.
    """
    proof = prove(subject, static, examples, file, on_progress)
    if static.approximate and plan.form == "auto" and not proof.parity.passed:
        exact = static_form(subject.model, replace(plan, calibration=None), subject.artifact.preprocessing)
        proof = prove(subject, _exact_instead(exact, proof.parity), examples, file, on_progress)
    proof.parity.raise_failures()
    return proof


def _exact_instead(exact: StaticModel, parity: ParityReport) -> StaticModel:
    """The exact form, and what was wrong with the approximation."""
    failed = "; ".join(item.failure for item in parity.failed)
    return replace(exact, record={"reason": f"exact: the low_rank form did not pass the parity check ({failed})"})


def _lower(
    subject: ExportSource,
    plan: FormPlan,
    proof: CheckedExport,
    examples: CheckedExamples,
    file: Path,
    on_progress: OnProgress,
) -> tuple[CheckedExport, AccuracyReport | None]:
    """The files in a lower precision and what that costs; nothing is done where none is asked for."""
    if not subject.options.precision.lower:
        return proof, None
    calibration = subject.artifact.samples.inputs[::2] if plan.calibration is None else plan.calibration.fitted
    return lower_files(subject, proof, file, calibration, examples, on_progress)


def _build(subject: ExportSource, file: Path, on_progress: OnProgress) -> EngineReport | None:
    """The TensorRT engine beside the ONNX file; None where none is asked for."""
    engine = subject.options.engine
    if engine is None:
        return None
    on_progress(f"building the {engine.format} engine")
    return build_engine(file, subject.signature, engine, file.with_name(ENGINE_NAMES[engine.format]))


def _publish(subject: ExportSource, report: ExportReport, on_progress: OnProgress) -> ExportReport:
    """Publish what lies beside ``report.path``; the report with the path where it lies now."""
    target, made = subject.options.target, report.path.parent
    card = subject.card(report.form)
    with locked(target):
        number = check_target(target, card)
        on_progress(f"publishing {target.folder / str(number)}")
        with publishing(target, number, card) as folder:
            for item in made.iterdir():
                (folder / item.name).write_bytes(item.read_bytes())
            record = _record(subject, card, report) | {
                "version": number,
                "sha256": {item.name: sha256(folder / item.name) for item in made.iterdir()},
            }
            text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            (folder / RECORD_NAME).write_text(text, encoding="utf-8")
    return replace(report, path=target.folder / str(number) / report.path.name)


def _record(subject: ExportSource, card: ModelCard, report: ExportReport) -> dict[str, Any]:
    """What ``export.json`` says, but for version and digests."""
    found = report.to_dict()
    del found["path"]
    return {
        "schema": SCHEMA,
        "name": subject.options.target.name,
        "input_type": card.signature.input_type,
        **card.to_dict(),
        "dtype": subject.options.precision.dtype,
        **found,
        "artifact": subject.provenance,
        "versions": current_versions() | {name: version(name) for name in ("onnx", "onnxscript", "onnxruntime")},
    }

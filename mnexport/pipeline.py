"""One export: artifact → static form → ONNX → parity → model repository."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mnexport.accuracy import AccuracyReport
from mnexport.calibrating import calibration_examples
from mnexport.checking import CheckedExamples, parity_examples
from mnexport.forms.dispatch import static_form
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.layout import MODEL_NAME, RECORD_NAME
from mnexport.lowering import check_lowerable
from mnexport.lowering_stage import lower_files
from mnexport.model_card import ModelCard
from mnexport.neighbours import carried_neighbours, write_neighbours
from mnexport.options import ExportOptions
from mnexport.parity import ParityReport
from mnexport.proving import Proof, prove
from mnexport.publishing import locked, publishing
from mnexport.report import ExportReport
from mnexport.repository import check_target, sha256
from mnexport.scratch import scratch_folder
from mnexport.subject import Subject, read_subject
from mnexport.tensorrt import ENGINE_NAMES, EngineReport, build_engine, check_installed
from mntrain.artifact import current_versions

SCHEMA = 2
Tell = Callable[[str], None]


def export(options: ExportOptions, tell: Tell = lambda message: None) -> ExportReport:
    """Export, check, publish; if any stage fails nothing is published.

    Args:
        tell: told what is being done.

    Raises:
        MnExportError, MnTrainError: see their trees.
    """
    if options.engine is not None:
        check_installed(options.engine.format)
    tell(f"reading {options.artifact}")
    subject = read_subject(options)
    carried = carried_neighbours(options, subject.artifact)
    plan = _plan(subject, tell)
    static = static_form(subject.model, plan, subject.artifact.preprocessing)
    check_lowerable(static.module, options.precision)
    # Seen before any work is done; the answer may be another one when the work is finished.
    with locked(options.target):
        check_target(options.target, subject.card(static.form))
    examples = parity_examples(options, subject.artifact, tell)
    with scratch_folder() as scratch:
        file = scratch / MODEL_NAME
        proof = _prove(subject, plan, static, examples, file, tell)
        proof, accuracy = _lower(subject, plan, proof, examples, file, tell)
        engine = _build(subject, file, tell)
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
            neighbours=write_neighbours(carried, subject.artifact, scratch),
        )
        return _publish(subject, report, tell)


def _plan(subject: Subject, tell: Tell) -> FormPlan:
    """Which form is asked for, with the examples that it is fitted to."""
    options = subject.options
    return FormPlan(
        form=options.form,
        tolerance=options.approximation,
        rank=options.rank,
        explain=options.explain,
        calibration=calibration_examples(options, subject.artifact, tell),
    )


def _prove(
    subject: Subject, plan: FormPlan, static: StaticModel, examples: CheckedExamples, file: Path, tell: Tell
) -> Proof:
    """The files of a form that answers as the trained model does.

    An approximation that ``auto`` chose and that does not come near enough gives way to the exact form.

    Raises:
        ParityError: they do not answer as it does.
    """
    proof = prove(subject, static, examples, file, tell)
    if static.approximate and plan.form == "auto" and not proof.parity.passed:
        exact = static_form(subject.model, replace(plan, calibration=None), subject.artifact.preprocessing)
        proof = prove(subject, _exact_instead(exact, proof.parity), examples, file, tell)
    proof.parity.raise_failures()
    return proof


def _exact_instead(exact: StaticModel, parity: ParityReport) -> StaticModel:
    """The exact form, and what was wrong with the approximation."""
    failed = "; ".join(item.failure for item in parity.failed)
    return replace(exact, record={"reason": f"exact: the low_rank form did not pass the parity check ({failed})"})


def _lower(
    subject: Subject, plan: FormPlan, proof: Proof, examples: CheckedExamples, file: Path, tell: Tell
) -> tuple[Proof, AccuracyReport | None]:
    """The files in a lower precision and what that costs; nothing is done where none is asked for."""
    if not subject.options.precision.lower:
        return proof, None
    calibration = subject.artifact.samples.inputs[::2] if plan.calibration is None else plan.calibration.fitted
    return lower_files(subject, proof, file, calibration, examples, tell)


def _build(subject: Subject, file: Path, tell: Tell) -> EngineReport | None:
    """The TensorRT engine beside the ONNX file; None where none is asked for."""
    engine = subject.options.engine
    if engine is None:
        return None
    tell(f"building the {engine.format} engine")
    return build_engine(file, subject.signature, engine, file.with_name(ENGINE_NAMES[engine.format]))


def _publish(subject: Subject, report: ExportReport, tell: Tell) -> ExportReport:
    """Publish what lies beside ``report.path``; the report with the path where it lies now."""
    target, made = subject.options.target, report.path.parent
    card = subject.card(report.form)
    with locked(target):
        number = check_target(target, card)
        tell(f"publishing {target.folder / str(number)}")
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


def _record(subject: Subject, card: ModelCard, report: ExportReport) -> dict[str, Any]:
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

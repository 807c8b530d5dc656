"""One export: artifact → static form → ONNX → parity → model repository."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mnexport.accuracy import AccuracyReport, measure_accuracy
from mnexport.calibrating import calibration_examples
from mnexport.checking import CPU_NAME, CheckedExamples, of_file, parity_checks, parity_examples, run_checks
from mnexport.forms.dispatch import static_form, without_adaptation
from mnexport.forms.low_rank.integer_keys import onnx_translations
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.graph import GraphReport, describe, write_core, write_onnx
from mnexport.lowering import check_lowerable, lower
from mnexport.model_card import ModelCard, tensor_specs
from mnexport.neighbours import NeighboursReport, carried_neighbours, write_neighbours
from mnexport.options import ExportOptions
from mnexport.parity import Check, ParityReport, Runner, onnxruntime_runner
from mnexport.publishing import locked, publishing
from mnexport.quantization import quantize
from mnexport.repository import check_target, sha256
from mnexport.scratch import scratch_folder
from mnexport.signature import Signature, image_signature, table_signature
from mnexport.tensorrt import ENGINE_NAMES, EngineReport, build_engine, check_installed
from mntrain.artifact import ImageArtifact, TableArtifact, current_versions, load_artifact
from mntrain.errors import ArtifactError

SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What was published.

    Args:
        path: of the ONNX file.
        form: static form that was chosen.
        family: model family.
        adaptation: why the form was chosen; rank, errors and costs of an approximation.
        graph: size of the graph.
        parity: how close the export is.
        accuracy: what a lower precision costs, or None.
        engine: the TensorRT engine that was built beside it, or None.
        neighbours: the training images that the artifact carries, or None.
    """

    path: Path
    form: str
    family: str
    adaptation: dict[str, Any]
    graph: GraphReport
    parity: ParityReport
    accuracy: AccuracyReport | None = None
    engine: EngineReport | None = None
    neighbours: NeighboursReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "path": str(self.path),
            "family": self.family,
            "form": self.form,
            "adaptation": self.adaptation,
            "graph": asdict(self.graph),
            "parity": self.parity.to_dict(),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            "engine": None if self.engine is None else self.engine.to_dict(),
            "neighbors": None if self.neighbours is None else self.neighbours.to_dict(),
        }


def export(options: ExportOptions, tell: Callable[[str], None] = lambda message: None) -> ExportReport:
    """Export, check, publish; if any stage fails nothing is published.

    Args:
        tell: told what is being done.

    Raises:
        MnExportError, MnTrainError: see their trees.
    """
    if options.engine is not None:
        check_installed(options.engine.format)
    tell(f"reading {options.artifact}")
    artifact = load_artifact(options.artifact)
    assert isinstance(artifact, ImageArtifact | TableArtifact)
    provenance = _provenance(options, artifact)
    carried = carried_neighbours(options, artifact)
    model = without_adaptation(artifact.model) if options.vanilla else artifact.model
    family = "vanilla" if options.vanilla else artifact.config.family
    plan = FormPlan(
        form=options.form,
        tolerance=options.approximation,
        rank=options.rank,
        explain=options.explain,
        calibration=calibration_examples(options, artifact, tell),
    )
    static = static_form(model, plan, artifact.preprocessing)
    check_lowerable(static.module, options.precision)
    signature = _signature(options, artifact)
    # Seen before any work is done; the answer may be another one when the work is finished.
    with locked(options.target):
        check_target(options.target, _card(options, signature, family, static))
    examples = parity_examples(options, artifact, tell)
    with scratch_folder() as scratch:
        file = scratch / "model.onnx"
        metadata = _metadata(options, _card(options, signature, family, static))

        def build(static: StaticModel) -> tuple[GraphReport, tuple[Check, ...]]:
            tell(f"tracing the {static.form} form")
            told = metadata | {"mn.form": static.form}
            graph = write_onnx(static.module, signature, options.graph.opset, told, file)
            cpu = file.with_name(CPU_NAME)
            cpu.unlink(missing_ok=True)
            if static.cpu_module is not None and options.precision.dtype in ("float32", "int8"):
                tell("tracing it with keys in 8 bits")
                core = signature.without_explanation()
                write_onnx(static.cpu_module, core, options.graph.opset, told, cpu, onnx_translations())
            return graph, parity_checks(model, static, _files(file, signature), options, artifact)

        graph, checks = build(static)
        parity = _without_failed_cpu(run_checks(checks, examples, options, tell), file)
        if static.approximate and options.form == "auto" and not parity.passed:
            static = _exact_instead(static_form(model, replace(plan, calibration=None), artifact.preprocessing), parity)
            graph, checks = build(static)
            parity = run_checks(checks, examples, options, tell)
        parity.raise_failures()
        if not file.with_name(CPU_NAME).exists() and static.record.get("integer_keys"):
            static = replace(static, record=static.record | {"integer_keys": None})
        accuracy = None
        if options.precision.lower:
            tell(f"lowering the backbone to {options.precision.dtype}")
            calibration = artifact.samples.inputs[::2] if plan.calibration is None else plan.calibration.fitted
            opset = options.graph.opset
            told = metadata | {"mn.form": static.form}
            lowered = lower(static.module, file, signature, options.precision, opset, told, calibration)
            files = _files(file, signature)
            accuracy = _accuracy(checks[0].expected, lowered, examples, options)
            accuracy.raise_failure()
            if CPU_NAME in files:
                cpu, core = files[CPU_NAME]
                quantize(cpu, core, calibration)
                again = _accuracy(checks[0].expected, ("onnxruntime", onnxruntime_runner(cpu, core)), examples, options)
                again.raise_failure()
            graph = describe(file)
        engine = None
        if options.engine is not None:
            tell(f"building the {options.engine.format} engine")
            target = file.with_name(ENGINE_NAMES[options.engine.format])
            engine = build_engine(file, signature, options.engine, target)
        neighbours = write_neighbours(carried, artifact, file.parent)
        card = _card(options, signature, family, static)
        with locked(options.target):
            number = check_target(options.target, card)
            tell(f"publishing {options.target.folder / str(number)}")
            with publishing(options.target, number, card) as folder:
                for item in file.parent.iterdir():
                    (folder / item.name).write_bytes(item.read_bytes())
                record = _record(card, graph, parity, provenance) | {
                    "name": options.target.name,
                    "adaptation": static.record,
                    "dtype": options.precision.dtype,
                    "accuracy": None if accuracy is None else accuracy.to_dict(),
                    "engine": None if engine is None else engine.to_dict(),
                    "neighbors": None if neighbours is None else neighbours.to_dict(),
                    "version": number,
                    "sha256": {item.name: sha256(folder / item.name) for item in file.parent.iterdir()},
                }
                text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
                (folder / "export.json").write_text(text, encoding="utf-8")
    return ExportReport(
        path=options.target.folder / str(number) / "model.onnx",
        form=static.form,
        family=family,
        adaptation=static.record,
        graph=graph,
        parity=parity,
        accuracy=accuracy,
        engine=engine,
        neighbours=neighbours,
    )


def _files(file: Path, signature: Signature) -> dict[str, tuple[Path, Signature]]:
    """The files of a version: the whole model, and what everyone gets where that is less."""
    files = {file.name: (file, signature)}
    core = signature.without_explanation()
    if core != signature:
        write_core(file, signature, file.with_name("core.onnx"))
        files["core.onnx"] = file.with_name("core.onnx"), core
    if file.with_name(CPU_NAME).exists():
        files[CPU_NAME] = file.with_name(CPU_NAME), core
    return files


def _without_failed_cpu(parity: ParityReport, file: Path) -> ParityReport:
    """The file for CPUs is an addition: where it alone does not agree, the model goes without it."""
    of_cpu = [item for item in parity.comparisons if item.what == of_file(CPU_NAME)]
    if all(item.passed for item in of_cpu):
        return parity
    file.with_name(CPU_NAME).unlink()
    return replace(parity, comparisons=tuple(item for item in parity.comparisons if item not in of_cpu))


def _accuracy(
    trained: Runner, lowered: tuple[str, Runner], examples: CheckedExamples, options: ExportOptions
) -> AccuracyReport:
    inputs, targets = examples.examples.inputs, examples.examples.targets
    return measure_accuracy(
        options.precision, trained, lowered, (inputs, targets.astype(np.int64)), options.max_batch_size
    )


def _exact_instead(exact: StaticModel, parity: ParityReport) -> StaticModel:
    """The exact form, and what was wrong with the approximation."""
    failed = "; ".join(item.failure for item in parity.failed)
    return replace(exact, record={"reason": f"exact: the low_rank form did not pass the parity check ({failed})"})


def _card(options: ExportOptions, signature: Signature, family: str, static: StaticModel) -> ModelCard:
    return ModelCard(
        signature=signature,
        max_batch_size=options.max_batch_size,
        family=family,
        form=static.form,
        engine=None if options.engine is None else options.engine.format,
    )


def _signature(options: ExportOptions, artifact: ImageArtifact | TableArtifact) -> Signature:
    if isinstance(artifact, ImageArtifact):
        return image_signature(artifact.config, options.graph.input_type, options.explain)
    return table_signature(artifact.config, options.explain)


def _metadata(options: ExportOptions, card: ModelCard) -> dict[str, str]:
    """What the ONNX file says about itself."""
    return {
        "mn.version": version("mn-runtime"),
        "mn.name": options.target.name,
        "mn.family": card.family,
        "mn.form": card.form,
        "mn.input": json.dumps(card.signature.description, ensure_ascii=False),
        "mn.input_type": card.signature.input_type,
        "mn.labels": json.dumps(card.signature.labels, ensure_ascii=False),
    }


def _provenance(options: ExportOptions, artifact: ImageArtifact | TableArtifact) -> dict[str, Any]:
    """Where the model comes from, as ``export.json`` tells it.

    Raises:
        ArtifactError: the artifact says something that cannot be passed on as UTF-8 JSON.
    """
    found = {
        "name": artifact.config.experiment.name,
        "family": artifact.config.family,
        "metrics": artifact.config.metrics,
        "versions": artifact.config.versions,
        "sha256": {name: sha256(options.artifact / name) for name in ("model.safetensors", "config.json")},
    }
    try:
        json.dumps([found, artifact.config.labels], ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # NaN and infinity, or half a surrogate pair
        raise ArtifactError(
            f"{options.artifact / 'config.json'} holds a number or a text that export.json cannot repeat ({error}); "
            "correct its metrics, labels or names, or train again."
        ) from error
    return found


def _record(card: ModelCard, graph: GraphReport, parity: ParityReport, provenance: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "family": card.family,
        "form": card.form,
        "input_type": card.signature.input_type,
        "input": card.signature.description,
        "labels": None if card.signature.labels is None else list(card.signature.labels),
        **tensor_specs(card.signature),
        "graph": asdict(graph),
        "parity": parity.to_dict(),
        "artifact": provenance,
        "versions": current_versions() | {name: version(name) for name in ("onnx", "onnxscript", "onnxruntime")},
    }

"""One export: artifact → static form → ONNX → parity → model repository."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mnexport.calibrating import calibration_images
from mnexport.errors import FormError
from mnexport.forms.dispatch import static_form, without_adaptation
from mnexport.forms.plan import FormPlan, StaticModel
from mnexport.graph import GraphReport, write_onnx
from mnexport.model_card import ModelCard, tensor_specs
from mnexport.options import ExportOptions
from mnexport.parity import (
    Check,
    ParityReport,
    compare,
    module_runner,
    onnxruntime_runner,
    trained_runner,
)
from mnexport.publishing import locked, publishing
from mnexport.repository import check_target, sha256
from mnexport.tolerance import Allowance, ProbabilityTolerance
from mntrain.artifact import ImageArtifact, current_versions, load_artifact
from mntrain.errors import ArtifactError
from mntrain.models.base import Model
from mntrain.training.held_out import load_split

SCHEMA = 1


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
    """

    path: Path
    form: str
    family: str
    adaptation: dict[str, Any]
    graph: GraphReport
    parity: ParityReport

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "path": str(self.path),
            "family": self.family,
            "form": self.form,
            "adaptation": self.adaptation,
            "graph": asdict(self.graph),
            "parity": self.parity.to_dict(),
        }


def export(options: ExportOptions, tell: Callable[[str], None] = lambda message: None) -> ExportReport:
    """Export, check, publish; if any stage fails nothing is published.

    Args:
        tell: told what is being done.

    Raises:
        MnExportError, MnTrainError: see their trees.
    """
    tell(f"reading {options.artifact}")
    artifact = load_artifact(options.artifact)
    if not isinstance(artifact, ImageArtifact):
        raise FormError(f"{options.artifact} holds a model of rows; export of table models is not built yet.")
    provenance = _provenance(options, artifact)
    model = without_adaptation(artifact.model) if options.vanilla else artifact.model
    family = "vanilla" if options.vanilla else artifact.config.family
    plan = FormPlan(
        form=options.form,
        tolerance=options.approximation,
        calibration=calibration_images(options, artifact, tell),
    )
    static = static_form(model, plan, artifact.preprocessing)
    card = ModelCard(
        input=artifact.config.input,
        input_type=options.graph.input_type,
        labels=artifact.config.labels,
        max_batch_size=options.max_batch_size,
        family=family,
        form=static.form,
    )
    # Seen before any work is done; the answer may be another one when the work is finished.
    with locked(options.target):
        check_target(options.target, card)
    with tempfile.TemporaryDirectory(prefix="mnexport-") as scratch:
        file = Path(scratch) / "model.onnx"
        tell(f"tracing the {static.form} form")
        graph = write_onnx(static.module, card.input, options.graph, _metadata(options, card), file)
        images, source = _parity_images(options, artifact, tell)
        parity = _parity(model, static, file, (images, source), options, artifact, tell)
        parity.raise_failures()
        with locked(options.target):
            number = check_target(options.target, card)
            tell(f"publishing {options.target.folder / str(number)}")
            with publishing(options.target, number, card) as folder:
                (folder / "model.onnx").write_bytes(file.read_bytes())
                record = _record(card, graph, parity, provenance) | {
                    "name": options.target.name,
                    "adaptation": static.record,
                    "version": number,
                    "sha256": {"model.onnx": sha256(folder / "model.onnx")},
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
    )


def _parity(
    model: Model,
    static: StaticModel,
    file: Path,
    images: tuple[Any, str],
    options: ExportOptions,
    artifact: ImageArtifact,
    tell: Callable[[str], None],
) -> ParityReport:
    """An exact form and its file answer as the trained model; an approximation comes near it, its file equals it."""
    input_type = options.graph.input_type
    trained, form = trained_runner(model, artifact.preprocessing), module_runner(static.module, input_type)
    near: Allowance = options.tolerance
    right = ("trained model", trained)
    if static.approximate:
        near, right = ProbabilityTolerance(limit=options.approximation), ("static form", form)
    checks = (
        Check(what="static form", runner=form, reference="trained model", expected=trained, tolerance=near),
        Check(
            what="onnxruntime",
            runner=onnxruntime_runner(file, input_type),
            reference=right[0],
            expected=right[1],
            tolerance=options.tolerance,
        ),
    )
    return compare(
        checks,
        images[0],
        large_batch=options.max_batch_size,
        source=images[1],
        advance=lambda message: tell(f"checking parity: {message}"),
    )


def _parity_images(options: ExportOptions, artifact: ImageArtifact, tell: Callable[[str], None]) -> tuple[Any, str]:
    if options.parity_images == "samples":
        images = artifact.samples.images
        return images, f"{len(images)} held-out images of the artifact"
    tell("loading the test split")
    test = load_split(artifact.config, "test", options.data_path)
    return test.inputs, f"test split, {len(test)} images"


def _metadata(options: ExportOptions, card: ModelCard) -> dict[str, str]:
    """What the ONNX file says about itself."""
    return {
        "mn.version": version("mn-runtime"),
        "mn.name": options.target.name,
        "mn.family": card.family,
        "mn.form": card.form,
        "mn.input": json.dumps(card.input_description),
        "mn.input_type": card.input_type,
        "mn.labels": json.dumps(list(card.labels), ensure_ascii=False),
    }


def _provenance(options: ExportOptions, artifact: ImageArtifact) -> dict[str, Any]:
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
        "dtype": "float32",
        "input_type": card.input_type,
        "input": card.input_description,
        "labels": list(card.labels),
        **tensor_specs(card),
        "graph": asdict(graph),
        "parity": parity.to_dict(),
        "artifact": provenance,
        "versions": current_versions() | {name: version(name) for name in ("onnx", "onnxscript", "onnxruntime")},
    }

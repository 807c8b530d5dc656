"""One export: artifact → static form → ONNX → parity → model repository."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mnexport.errors import FormError, UsageError
from mnexport.forms.dispatch import FORMS, static_form, without_adaptation
from mnexport.graph import GraphOptions, GraphReport, write_onnx
from mnexport.model_card import ModelCard, tensor_specs
from mnexport.parity import (
    ParityReport,
    Tolerance,
    compare,
    module_runner,
    onnxruntime_runner,
    trained_runner,
)
from mnexport.publishing import locked, publishing
from mnexport.repository import Target, check_target, sha256
from mntrain.artifact import ImageArtifact, current_versions, load_artifact
from mntrain.errors import ArtifactError
from mntrain.training.held_out import load_split

SCHEMA = 1
ParityImages = Literal["samples", "test"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What to export and how.

    Args:
        artifact: folder that ``mntrain fit`` wrote.
        target: where the model goes.
        form: auto, explicit or factored.
        vanilla: the same backbone and head without adaptation.
        graph: input type and opset.
        tolerance: of the parity check.
        parity_images: samples uses the held-out images inside the artifact; test the whole test split.
        data_path: where the data lies now, for ``test``.
        max_batch_size: rows the server may put into one batch.
    """

    artifact: Path
    target: Target
    form: str = "auto"
    vanilla: bool = False
    graph: GraphOptions = field(default_factory=GraphOptions)
    tolerance: Tolerance = field(default_factory=Tolerance)
    parity_images: ParityImages = "samples"
    data_path: str | None = None
    max_batch_size: int = 64

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError(f"Form {self.form!r} does not exist; choose from {', '.join(FORMS)}.")
        if self.vanilla and self.form != "auto":
            raise UsageError(f"--vanilla exports no adaptation, so --form {self.form} has no meaning; leave one out.")
        if not 1 <= self.max_batch_size <= 65536:
            raise UsageError(f"--max-batch-size is {self.max_batch_size}; it must be from 1 to 65536.")
        if self.data_path is not None and self.parity_images != "test":
            raise UsageError("--data-path is only read with --parity test; add it, or leave the path out.")


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What was published.

    Args:
        path: of the ONNX file.
        form: static form that was chosen.
        family: model family.
        graph: size of the graph.
        parity: how close the export is.
    """

    path: Path
    form: str
    family: str
    graph: GraphReport
    parity: ParityReport

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "path": str(self.path),
            "family": self.family,
            "form": self.form,
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
    static = static_form(model, options.form, artifact.preprocessing)
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
        parity = compare(
            trained_runner(model, artifact.preprocessing),
            {
                "static form": module_runner(static.module, options.graph.input_type),
                "onnxruntime": onnxruntime_runner(file, options.graph.input_type),
            },
            images,
            options.tolerance,
            large_batch=options.max_batch_size,
            source=source,
            advance=lambda message: tell(f"checking parity: {message}"),
        )
        parity.raise_failures()
        with locked(options.target):
            number = check_target(options.target, card)
            tell(f"publishing {options.target.folder / str(number)}")
            with publishing(options.target, number, card) as folder:
                (folder / "model.onnx").write_bytes(file.read_bytes())
                record = _record(card, graph, parity, provenance) | {
                    "name": options.target.name,
                    "version": number,
                    "sha256": {"model.onnx": sha256(folder / "model.onnx")},
                }
                text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
                (folder / "export.json").write_text(text, encoding="utf-8")
    return ExportReport(
        path=options.target.folder / str(number) / "model.onnx",
        form=static.form,
        family=family,
        graph=graph,
        parity=parity,
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

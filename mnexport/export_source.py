"""What is exported: a trained model, what it takes and gives, and where it comes from."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from mnexport.forms.dispatch import without_adaptation
from mnexport.options import ExportOptions
from mnexport.repository.model_card import ModelCard
from mnexport.repository.target import sha256
from mnexport.signature import ExportSignature, image_signature, table_signature
from mntrain.artifact import ImageArtifact, TableArtifact, load_artifact
from mntrain.errors import ArtifactError
from mntrain.models.base import Model


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportSource:
    """The model of an artifact, as it is to be exported.

    Args:
        options: what is asked for.
        artifact: where the model comes from.
        model: the trained model, or with ``--vanilla`` what is left of it.
        family: of that model.
        signature: what the export takes and gives.
        provenance: where it comes from, as ``export.json`` tells it.
    """

    options: ExportOptions
    artifact: ImageArtifact | TableArtifact
    model: Model
    family: str
    signature: ExportSignature
    provenance: dict[str, Any]

    def card(self, form: str) -> ModelCard:
        """What ``config.pbtxt`` says of this model in a static form."""
        engine = self.options.engine
        return ModelCard(
            signature=self.signature,
            max_batch_size=self.options.max_batch_size,
            family=self.family,
            form=form,
            engine=None if engine is None else engine.format,
        )

    def metadata(self, form: str) -> dict[str, str]:
        """What an ONNX file of this model in a static form says about itself."""
        return {
            "mn.version": version("mn-runtime"),
            "mn.name": self.options.target.name,
            "mn.family": self.family,
            "mn.form": form,
            "mn.input": json.dumps(self.signature.description, ensure_ascii=False),
            "mn.input_type": self.signature.input_type,
            "mn.labels": json.dumps(self.signature.labels, ensure_ascii=False),
        }


def read_source(options: ExportOptions) -> ExportSource:
    """Read an artifact, and see what of it is exported.

    Raises:
        ArtifactError: it cannot be read, or says something that cannot be passed on.
        FormError: ``--vanilla`` of a model that has no part without adaptation.
    """
    artifact = load_artifact(options.artifact)
    assert isinstance(artifact, ImageArtifact | TableArtifact)
    provenance = _provenance(options, artifact)
    return ExportSource(
        options=options,
        artifact=artifact,
        model=without_adaptation(artifact.model) if options.vanilla else artifact.model,
        family="vanilla" if options.vanilla else artifact.config.family,
        signature=_signature(options, artifact),
        provenance=provenance,
    )


def _signature(options: ExportOptions, artifact: ImageArtifact | TableArtifact) -> ExportSignature:
    if isinstance(artifact, ImageArtifact):
        images = artifact.config
        return image_signature(images.input, images.labels, options.graph.input_type, options.explain)
    rows = artifact.config
    return table_signature(rows.columns, rows.target, rows.labels, options.explain)


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
        "sha256": {
            "model.safetensors": artifact.weights_sha256,
            "config.json": sha256(options.artifact / "config.json"),
        },
    }
    try:
        json.dumps([found, artifact.config.labels], ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # NaN and infinity, or half a surrogate pair
        raise ArtifactError(
            f"{options.artifact / 'config.json'} holds a number or a text that export.json cannot repeat ({error}); "
            "correct its metrics, labels or names, or train again."
        ) from error
    return found

"""Source of an export: a trained model, its signature, and its provenance."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy.typing as npt

from mnexport.forms.dispatch import without_adaptation
from mnexport.graft.network import GraftedNetwork
from mnexport.graft.reading import read_graft
from mnexport.graph import GraphOptions
from mnexport.repository.target import sha256
from mnexport.signature import ExportSignature, RowInterface, image_signature, table_signature
from mntrain.acting.record import AdaptationRecord
from mntrain.artifact import ImageArtifact, TableArtifact, load_artifact
from mntrain.data.images import ImageSet
from mntrain.data.tables import TableSet
from mntrain.errors import ArtifactError
from mntrain.models.base import Model


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportSource:
    """A trained model as it is exported.

    Args:
        name: of the published model.
        artifact: where the model comes from.
        model: the trained model, or with ``--vanilla`` the part of it that does not adapt.
        family: of that model.
        signature: inputs and outputs of the export.
        opset: ONNX operator set.
        provenance: record of the artifact in ``export.json``.
        graft: frozen network in front of a model that takes its features; None for one that takes the data itself.
    """

    name: str
    artifact: ImageArtifact | TableArtifact
    model: Model
    family: str
    signature: ExportSignature
    opset: int
    provenance: dict[str, Any]
    graft: GraftedNetwork | None = None

    @property
    def samples(self) -> ImageSet | TableSet:
        """Examples of the artifact that the exported graph takes, with their targets."""
        return self.artifact.samples if self.graft is None else self.graft.samples

    def model_inputs(self, examples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert stored examples that the exported graph takes to those that the model takes: features of a graft."""
        return examples if self.graft is None else self.graft.embed(examples)

    @property
    def target_deviation(self) -> float | tuple[float, ...]:
        """Standard deviation of the target of a regressor, or of each of several; 1 for a classifier."""
        if isinstance(self.artifact, TableArtifact) and self.artifact.config.labels is None:
            return self.artifact.config.standardization.target_std
        return 1.0

    @property
    def finding(self) -> str:
        """Where explanations mean nothing, or the dictionary does not act, as training found; empty elsewhere."""
        record = AdaptationRecord.from_metrics(self.artifact.config.metrics)
        return "" if record is None else "; ".join(record.verdicts())

    def metadata(self, form: str) -> dict[str, str]:
        """Return the metadata of an ONNX file of this model in a static form."""
        return {
            "mn.version": version("mn-runtime"),
            "mn.name": self.name,
            "mn.family": self.family,
            "mn.form": form,
            "mn.input": json.dumps(self.signature.description, ensure_ascii=False),
            "mn.input_type": self.signature.input_type,
            "mn.labels": json.dumps(self.signature.labels, ensure_ascii=False),
        }


def read_source(
    folder: Path,
    name: str,
    graph: GraphOptions,
    *,
    vanilla: bool = False,
    explain: int = 0,
    backbone: Path | None = None,
) -> ExportSource:
    """Read an artifact and choose the part of it that is exported.

    Args:
        folder: of the artifact.
        name: of the published model.
        graph: input type and operator set.
        vanilla: export the backbone and head without adaptation.
        explain: neighbors that an answer tells; 0 for none.
        backbone: where the frozen network of a head lies now; None is where it lay.

    Raises:
        ArtifactError: the artifact cannot be read, or holds a value that ``export.json`` cannot repeat.
        FormError: ``vanilla`` of a model that has no part without adaptation.
        MnExportError, MnTrainError: the frozen network of a head cannot be opened, or is another one.
    """
    artifact = load_artifact(folder)
    assert isinstance(artifact, ImageArtifact | TableArtifact)
    provenance = _provenance(artifact, folder / "config.json")
    graft = read_graft(artifact, backbone, graph, explain)
    return ExportSource(
        name=name,
        artifact=artifact,
        model=without_adaptation(artifact.model) if vanilla else artifact.model,
        family="vanilla" if vanilla else artifact.config.family,
        signature=_signature(artifact, graph, explain) if graft is None else graft.signature,
        opset=graph.opset if graft is None else graft.opset,
        provenance=provenance,
        graft=graft,
    )


def example_noun(artifact: ImageArtifact | TableArtifact) -> str:
    """Name the kind of examples that an artifact is trained on."""
    return "images" if isinstance(artifact, ImageArtifact) else "rows"


def _signature(artifact: ImageArtifact | TableArtifact, graph: GraphOptions, explain: int) -> ExportSignature:
    if isinstance(artifact, ImageArtifact):
        images = artifact.config
        return image_signature(images.input, images.labels, graph.input_type, explain)
    rows = artifact.config
    interface = RowInterface(
        columns=rows.columns,
        targets=rows.targets,
        categories=rows.categories,
        takes_nan=rows.standardization.fill is not None,
    )
    return table_signature(interface, rows.labels, explain)


def _provenance(artifact: ImageArtifact | TableArtifact, config_file: Path) -> dict[str, Any]:
    """Collect the record of the artifact for ``export.json``.

    Raises:
        ArtifactError: the artifact holds a value that UTF-8 JSON cannot.
    """
    provenance = {
        "name": artifact.config.experiment.name,
        "family": artifact.config.family,
        "metrics": artifact.config.metrics,
        "versions": artifact.config.versions,
        "sha256": {
            "model.safetensors": artifact.weights_sha256,
            "config.json": sha256(config_file),
        },
    }
    try:
        json.dumps([provenance, artifact.config.labels], ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # NaN and infinity, or half a surrogate pair
        raise ArtifactError(
            f"{config_file} holds a number or a text that export.json cannot repeat ({error}); "
            "correct its metrics, labels or names, or train again."
        ) from error
    return provenance

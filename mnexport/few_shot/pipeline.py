"""Pipeline of a few-shot export: artifact → features → few-shot graph → parity → model repository."""

from dataclasses import replace
from pathlib import Path

from mnexport.errors import FormError
from mnexport.export_record import export_record
from mnexport.export_source import ExportSource, read_source
from mnexport.exported_card import exported_card
from mnexport.few_shot.features import DeployedFeatures
from mnexport.few_shot.graph import write_few_shot_graph
from mnexport.few_shot.parity import check_few_shot
from mnexport.few_shot.signature import features_signature, few_shot_limits, few_shot_signature
from mnexport.forms.similarity_report import similarity_report
from mnexport.graph import write_onnx
from mnexport.options import ExportOptions
from mnexport.parity.examples import parity_examples
from mnexport.progress import OnProgress
from mnexport.report import ExportReport
from mnexport.repository.layout import MODEL_NAME
from mnexport.repository.model_card import ModelCard
from mnexport.repository.place import check_place
from mnexport.repository.publishing import locked, publish_files
from mnexport.repository.target import check_target
from mnexport.scratch import scratch_folder
from mntrain.artifact import ImageArtifact
from mntrain.fewshot.network import FeatureNetwork

FORM = "few-shot"


def export_few_shot(options: ExportOptions, on_progress: OnProgress) -> ExportReport:
    """Export the network of an artifact as a few-shot classifier, check it, and publish it.

    Args:
        options: of the export, with ``few_shot``.
        on_progress: gets a line of text before each step.

    Raises:
        FormError: the artifact takes no images.
        MnExportError: the graph, parity or the repository.
        MnTrainError: the artifact or its data cannot be read.
    """
    check_place(options.target)
    on_progress(f"reading {options.artifact}")
    source = read_source(options.artifact, options.target.name, options.graph)
    artifact = source.artifact
    if not isinstance(artifact, ImageArtifact):
        raise FormError(f"{options.artifact} holds a model of rows; --few-shot is for images, so leave it out.")
    network = FeatureNetwork.of(artifact)
    signature = few_shot_signature(source.signature)
    limits = few_shot_limits(options.batch_rows)
    card = ModelCard(signature=signature, max_batch_size=0, family=source.family, form=FORM, limits=limits)
    with locked(options.target):
        check_target(options.target, card)
    examples = parity_examples(source, options.parity_images, options.data_path, on_progress)
    with scratch_folder() as scratch, scratch_folder() as aside:
        file = scratch / MODEL_NAME
        on_progress("tracing the features")
        module = DeployedFeatures(network.preprocessing, network.backbone)
        _write_features(source, network, module, aside / MODEL_NAME)
        graph = write_few_shot_graph(aside / MODEL_NAME, signature, file)
        on_progress("checking parity")
        parity = check_few_shot(network, file, signature, examples, options.parity_tolerance)
        parity.raise_failures()
        report = ExportReport(
            path=file,
            form=FORM,
            family=source.family,
            adaptation={"reason": "nearest mean of the support set, in closed form"},
            graph=graph,
            parity=parity,
            similarity=similarity_report(network.backbone, module.backbone, source.signature.stored_shape),
        )
        record = export_record(source, card, report, "float32")
        readme = exported_card(source, card, report, record["versions"])
        folder = publish_files(options.target, card, scratch, record, on_progress, readme)
        return replace(report, path=folder / MODEL_NAME)


def _write_features(source: ExportSource, network: FeatureNetwork, module: DeployedFeatures, file: Path) -> None:
    metadata = source.metadata(FORM) | {"mn.labels": "null"}  # classes are those of the request
    write_onnx(module, features_signature(source.signature, network.features), source.opset, metadata, file)

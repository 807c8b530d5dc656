"""Reading of the network that a head artifact names, and of the images beside it.

Shapes: images uint8 [M, C, H, W].
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from mnexport.errors import FormError, UsageError
from mnexport.graft.front import front_opset
from mnexport.graft.network import GraftedNetwork
from mnexport.graph import GraphOptions
from mnexport.signature import ExportSignature, image_signature
from mntrain.artifact import Artifact, TableArtifact
from mntrain.artifact_config import InputSpec
from mntrain.data.images import ImageSet
from mntrain.errors import ArtifactError, ConfigError, DataError
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.networks.opening import reopen_network
from mntrain.networks.record import NetworkRecord, PixelRule
from mntrain.networks.sample_images import NETWORK_IMAGES
from mntrain.regular_files import regular

_CHECKED = 8
_FEATURE_TOLERANCE = 0.02
"""Largest difference of features, over the largest feature."""


def read_graft(artifact: Artifact, backbone: Path | None, graph: GraphOptions, explain: int) -> GraftedNetwork | None:
    """Open the network whose features an artifact takes; None for an artifact that takes the data itself.

    Args:
        artifact: any.
        backbone: where the network lies now; None is where it lay when its features were computed.
        graph: input type and operator set of the export.
        explain: neighbors that an answer tells; 0 for none.

    Raises:
        UsageError: a place of a network is given for an artifact without one.
        FormError: the head estimates values, not classes.
        ArtifactError: the images of the artifact are missing, or do not fit; or the network gives other features.
        GraphError: the network's ONNX file cannot be read.
        MnTrainError: the network is not the one that the head was trained on, or cannot be opened.
    """
    record = artifact.config.network
    if record is None or record.pixels is None:
        if backbone is not None:
            raise UsageError(
                f"--backbone {backbone} says where the network of a head lies, and {artifact.path} names none that "
                "takes images; leave it out."
            )
        return None
    labels = artifact.config.labels
    assert isinstance(artifact, TableArtifact)
    if labels is None:
        raise FormError(
            f"{artifact.path} estimates values from features of {record.name}; a network is joined with classifiers "
            "alone, so serve the two by themselves."
        )
    if len(artifact.config.columns) != record.features:
        raise ArtifactError(
            f"The head of {artifact.path} takes {len(artifact.config.columns)} features, and {record.name} gives "
            f"{record.features}; they are not of one artifact, so train the head on features of this network."
        )
    samples = _read_images(artifact, record.pixels)
    network = _open(record, backbone)
    _check_features(artifact, samples, network)
    return GraftedNetwork(
        network=network,
        samples=samples,
        signature=graft_signature(record.pixels, labels, graph, explain),
        opset=front_opset(network, graph.opset),
    )


def _open(record: NetworkRecord, backbone: Path | None) -> FrozenNetwork:
    """Open the network of a record, where it lies now.

    Raises:
        ArtifactError: it does not lie there.
        DataError: another network lies there.
    """
    try:
        return reopen_network(record if backbone is None else replace(record, name=str(backbone)))
    except ConfigError as error:
        remedy = "Say with --backbone where the network of this head lies now."
        raise ArtifactError(f"{error} {remedy if backbone is None else ''}".rstrip()) from error


def _check_features(artifact: TableArtifact, samples: ImageSet, network: FrozenNetwork) -> None:
    """Hold the network to the features that the artifact has of its images.

    Equal weights do not make an equal network: its configuration may differ, or the record of its pixels.

    Raises:
        ArtifactError: features differ by more than another batch, release or processor explains.
    """
    stored = artifact.samples.inputs[:_CHECKED]
    difference = float(np.abs(network.embed(samples.images[:_CHECKED]) - stored).max())
    largest = float(np.abs(stored).max())
    if not difference <= _FEATURE_TOLERANCE * largest:
        raise ArtifactError(
            f"{network.record.name} gives other features of the images in {artifact.path} than the head was trained "
            f"on: they differ by up to {difference:.3g}, where the largest is {largest:.3g}. Its configuration, or the "
            "way of pixels in config.json, is another; put the old one back, or write the features again."
        )


def graft_signature(rule: PixelRule, labels: tuple[str, ...], graph: GraphOptions, explain: int) -> ExportSignature:
    """Make the signature of a graft: images of the stored size, which the graph resizes where the rule says so.

    Raises:
        ArtifactError: the rule's images are too large, or were brought to their size in an unknown way.
    """
    try:
        size = InputSpec(channels=rule.channels, height=rule.height, width=rule.width, fit=rule.fit)  # type: ignore[arg-type]
    except ValueError as error:
        raise ArtifactError(f"The network of this head takes images that cannot be served: {error}.") from error
    signature = image_signature(size, labels, graph.input_type, explain)
    if rule.resize is None:
        return signature
    return replace(signature, description=signature.description | {"resize": list(rule.resize)})


def _read_images(artifact: TableArtifact, rule: PixelRule) -> ImageSet:
    file = artifact.path / NETWORK_IMAGES
    try:
        images = load_file(str(regular(file)))["images"]
        samples = ImageSet(images=images, labels=artifact.samples.targets.astype(np.int64))
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{artifact.path} has no {NETWORK_IMAGES}, on which the whole of network and head is checked; compute the "
            "features from images again and train the head on them."
        ) from error
    except (KeyError, OSError, SafetensorError, DataError) as error:
        raise ArtifactError(
            f"{file} does not hold one image for each sample ({error}); copy or train the artifact again."
        ) from error
    if samples.images.shape[1:] != rule.stored_shape:
        raise ArtifactError(
            f"{file} holds images of {list(samples.images.shape[1:])}, but config.json says "
            f"{list(rule.stored_shape)}; the files are not of one artifact."
        )
    return samples

"""Report on a grafted network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnexport.graft.features import FeatureEquality, check_features
from mnexport.graft.network import GraftedNetwork
from mnexport.progress import OnProgress
from mntrain.networks.record import NetworkRecord


@dataclass(frozen=True, kw_only=True)
class GraftReport:
    """Parts of a graph that a network and a head were joined to.

    Args:
        network: record of the network.
        cut: tensor of the network's own graph that the head stands on; None for a network in PyTorch.
        own_opset: operator set of the network's own file; None for a network in PyTorch.
        pixel_nodes: operators between the stored pixels and the input of the network.
        network_nodes: operators of the network.
        head_nodes: operators of the head.
        features: equality of the features; None for a network in PyTorch.
    """

    network: NetworkRecord
    cut: str | None
    own_opset: int | None
    pixel_nodes: int
    network_nodes: int
    head_nodes: int
    features: FeatureEquality | None

    @classmethod
    def of(cls, graft: GraftedNetwork, nodes: int, features: FeatureEquality | None) -> "GraftReport":
        """Describe a graft.

        Args:
            graft: that was written.
            nodes: operators of the whole graph in float32.
            features: equality of the features, where they were compared.
        """
        front, record = graft.front, graft.network.record
        pixels, network = len(front.pixels.graph.node), len(front.network.graph.node)
        return cls(
            network=record,
            cut=record.output if graft.is_onnx else None,
            own_opset=front.own_opset,
            pixel_nodes=pixels,
            network_nodes=network,
            head_nodes=nodes - pixels - network,
            features=features,
        )

    def describe(self) -> str:
        """Return one line for the command line."""
        parts = f"{self.pixel_nodes} operators on pixels, {self.network_nodes} of the network, {self.head_nodes} behind"
        if self.features is None:
            return f"grafted on {self.network.name}: {parts}"
        return (
            f"grafted on {self.network.name} at {self.cut!r}: {parts}; features of {self.features.images} images equal "
            "those of the file, bit for bit"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``, without the record of the network."""
        return {
            "cut": self.cut,
            "own_opset": self.own_opset,
            "nodes": {"pixels": self.pixel_nodes, "network": self.network_nodes, "head": self.head_nodes},
            "features": None if self.features is None else self.features.to_dict(),
        }


def check_graft(
    graft: GraftedNetwork | None, files: Sequence[Path], nodes: int, large_batch: int, on_progress: OnProgress
) -> GraftReport | None:
    """Check the features inside grafted files, and describe the graft; None without one.

    Args:
        graft: network of the files.
        files: written from it in float32.
        nodes: operators of the first.
        large_batch: rows of the largest batch.
        on_progress: gets a line before the comparison.

    Raises:
        ParityError: a feature differs from that of the network's own file.
        GraphError: ONNX Runtime does not run the network at one of the batch sizes.
    """
    if graft is None:
        return None
    return GraftReport.of(graft, nodes, check_features(graft, files, large_batch, on_progress))

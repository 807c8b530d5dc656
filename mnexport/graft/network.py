"""Frozen network of a head artifact, as it is grafted in front of the head.

Shapes: images uint8 [N, C, H, W], features float32 [N, d].
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from torch import nn

from mnexport.forms.similarity_report import SimilarityReport, similarity_report
from mnexport.graft.front import FrontGraph, front_graph, input_shape
from mnexport.graft.joining import joined, save_joined
from mnexport.graft.prefixing import prefixed
from mnexport.graph import GraphReport, write_onnx
from mnexport.scratch import scratch_folder
from mnexport.signature import ROW, ExportSignature, ExportTensor
from mntrain.data.images import ImageSet
from mntrain.networks.frozen_network import FrozenNetwork, OnnxBody, TorchBody

HEAD = "head/"


@dataclass(frozen=True, kw_only=True, eq=False)
class GraftedNetwork:
    """Frozen network in front of a head.

    Args:
        network: images → features.
        samples: sample images of the artifact, with labels; the artifact's sample rows are their features.
        signature: of the whole graph, from images to answers.
        opset: ONNX operator set of the whole graph.
    """

    network: FrozenNetwork
    samples: ImageSet
    signature: ExportSignature
    opset: int

    @property
    def is_onnx(self) -> bool:
        """Tell if the network is an ONNX file, and no module of PyTorch."""
        return isinstance(self.network.body, OnnxBody)

    @cached_property
    def front(self) -> FrontGraph:
        """Graph from images to features in float32; the network is traced once.

        Raises:
            GraphError: the network does not become a valid graph.
        """
        return front_graph(self.network, self.signature, self.opset)

    def embed(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Compute features [N, d] of images uint8 [N, C, H, W], as the head was trained on."""
        return self.network.embed(images)

    def similarity(self) -> SimilarityReport | None:
        """Report on layers of the network with neural similarity; None without any."""
        record, body, layers = self.network.record, self.network.body, self.front.layers
        if layers is None or record.pixels is None:
            return None
        assert isinstance(body, TorchBody)
        return similarity_report(body.module, layers, input_shape(record.pixels))

    def write(
        self,
        head: nn.Module,
        signature: ExportSignature,
        metadata: Mapping[str, str],
        file: Path,
        translations: dict[Any, Any] | None = None,
        front: FrontGraph | None = None,
    ) -> GraphReport:
        """Trace a head, join it behind the network, and write one ONNX file.

        Args:
            head: features → outputs; in eval mode.
            signature: of the whole graph.
            metadata: written into the file.
            file: to write.
            translations: of custom operators of the head, for the exporter.
            front: of another precision; None takes :attr:`front`.

        Raises:
            GraphError: the head cannot be traced, or the whole is not valid.
        """
        front = self.front if front is None else front
        row = ExportTensor(name=ROW, datatype="FP32", shape=(self.network.record.features,))
        rows = replace(signature, inputs=(row,), input_type="float32")
        with scratch_folder() as folder:
            part = folder / "head.onnx"
            write_onnx(head, rows, front.opset, {}, part, translations)
            back = prefixed(onnx.load(str(part)), HEAD, keep_outputs=True)
        return save_joined(joined(front.joined(), back), metadata, file)

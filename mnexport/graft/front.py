"""Front of a graft: the graph from stored pixels to the features of a frozen network.

Shapes: images [batch, C, H, W]; input of the network [batch, C, H', W'] or [batch, H', W', C]; features [batch, d].
"""

import copy
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import ModelProto
from torch import nn

from mnexport.forms.layers import static_layers
from mnexport.graft.cut import cut_network, opset_of_file
from mnexport.graft.joining import joined, prefixed
from mnexport.graft.opset import grafted_opset, with_opset
from mnexport.graph import write_onnx
from mnexport.scratch import scratch_folder
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.networks.frozen_network import FrozenNetwork, OnnxBody, TorchBody
from mntrain.networks.record import PixelRule

NETWORK, PIXELS = "network/", "pixels/"


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontGraph:
    """Graph from stored pixels to features.

    Args:
        pixels: stored pixels → input of the network.
        network: input of the network → features.
        layers: of a network in PyTorch, its module in static form; None for an ONNX file.
        own_opset: operator set of the user's file; None for a network in PyTorch.
    """

    pixels: ModelProto
    network: ModelProto
    layers: nn.Module | None = None
    own_opset: int | None = None

    @property
    def opset(self) -> int:
        """Operator set of both parts."""
        return next(item.version for item in self.network.opset_import if item.domain in ("", "ai.onnx"))

    @property
    def network_input(self) -> str:
        """Name of the input of the network inside a graft."""
        return str(self.network.graph.input[0].name)

    @property
    def features(self) -> str:
        """Name of the features inside a graft."""
        return str(self.network.graph.output[0].name)

    def joined(self) -> ModelProto:
        """Join both parts."""
        return joined(self.pixels, self.network)


def front_opset(network: FrozenNetwork, wanted: int) -> int:
    """Choose the operator set of a graft.

    Args:
        network: frozen.
        wanted: ``--opset``; a user's ONNX file of operator set 18 or later keeps its own.

    Raises:
        GraphError: the user's file cannot be read.
    """
    return grafted_opset(opset_of_file(network.body.file), wanted) if isinstance(network.body, OnnxBody) else wanted


def front_graph(network: FrozenNetwork, images: ExportSignature, opset: int) -> FrontGraph:
    """Make the front of a graft in float32.

    Args:
        network: frozen.
        images: signature of the graft, for its input.
        opset: of the whole graft.

    Raises:
        GraphError: the network does not become a valid graph.
    """
    rule = network.record.pixels
    assert rule is not None
    body, layers, own = network.body, None, None
    if isinstance(body, OnnxBody):
        own = opset_of_file(body.file)
        graph = with_opset(cut_network(body.file, body.output, network.record.features), opset)
    else:
        layers = static_network(body)
        graph = traced_network(layers, rule, network.record.features, opset)
    return FrontGraph(
        pixels=prefixed(_pixels(network.pixels, rule, images, opset), PIXELS, keep_inputs=True),
        network=prefixed(graph, NETWORK),
        layers=layers,
        own_opset=own,
    )


def static_network(body: TorchBody) -> nn.Module:
    """Copy a network in PyTorch, with layers in their static forms.

    Raises:
        FormError: a layer has none.
    """
    holder = nn.Sequential(copy.deepcopy(body.module))
    static_layers(holder)
    return holder.eval().requires_grad_(False)


def traced_network(module: nn.Module, rule: PixelRule, features: int, opset: int) -> ModelProto:
    """Trace a network in PyTorch.

    Args:
        module: input of the network → features.
        rule: of its input.
        features: d.
        opset: ONNX operator set.

    Raises:
        GraphError: it cannot be traced.
    """
    taken = ExportTensor(name="input", datatype="FP32", shape=input_shape(rule))
    return _traced(module, _between(taken, ExportTensor(name="features", datatype="FP32", shape=(features,))), opset)


def input_shape(rule: PixelRule) -> tuple[int, int, int]:
    """Shape of an input of the network, without batch, as it is laid out."""
    height, width = rule.resize or (rule.height, rule.width)
    return (height, width, rule.channels) if rule.layout == "NHWC" else (rule.channels, height, width)


def _pixels(module: nn.Module, rule: PixelRule, images: ExportSignature, opset: int) -> ModelProto:
    given = ExportTensor(name="input", datatype="FP32", shape=input_shape(rule))
    signature = ExportSignature(
        inputs=images.inputs, input_type=images.input_type, outputs=(given,), labels=None, description={}
    )
    return _traced(module.eval(), signature, opset)


def _between(taken: ExportTensor, given: ExportTensor) -> ExportSignature:
    return ExportSignature(inputs=(taken,), input_type="float32", outputs=(given,), labels=None, description={})


def _traced(module: nn.Module, signature: ExportSignature, opset: int) -> ModelProto:
    with scratch_folder() as folder:
        file = Path(folder) / "part.onnx"
        write_onnx(module, signature, opset, {}, file)
        return onnx.load(str(file))

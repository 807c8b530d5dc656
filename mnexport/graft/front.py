"""Front of a graft: the graph from stored pixels to the features of a frozen network.

Shapes: images [batch, C, H, W]; input of the network [batch, C, H', W'] or [batch, H', W', C]; features [batch, d].
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto
from torch import nn

from mnexport.forms.layers import static_layers
from mnexport.graft.adapters import give_pixels_as, vectors_of
from mnexport.graft.cut import cut_network, opset_of_file
from mnexport.graft.joining import joined
from mnexport.graft.opset import grafted_opset, opset_of_model, with_opset
from mnexport.graft.prefixing import prefixed
from mnexport.graft.sessions import ExposedModel
from mnexport.graph import BATCH, write_onnx
from mnexport.scratch import scratch_folder
from mnexport.signature import ExportSignature, ExportTensor
from mntrain.networks.frozen_network import FrozenNetwork, OnnxBody, TorchBody
from mntrain.networks.record import PixelRule

PIXELS, NETWORK, VECTORS = "pixels/", "network/", "vectors/"


@dataclass(frozen=True, kw_only=True, eq=False)
class FrontGraph:
    """Graph from stored pixels to features.

    Args:
        pixels: stored pixels → input of the network.
        network: input of the network → features, raw where an ONNX file gives no vectors.
        vectors: raw features → features; None where the network gives these.
        layers: of a network in PyTorch, its module in static form; None for an ONNX file.
        own_opset: operator set of the user's file; None for a network in PyTorch.
    """

    pixels: ModelProto
    network: ModelProto
    vectors: ModelProto | None = None
    layers: nn.Module | None = None
    own_opset: int | None = None

    @property
    def opset(self) -> int:
        """Operator set of both parts."""
        return opset_of_model(self.network)

    @property
    def network_input(self) -> str:
        """Name of the input of the network inside a graft, where it is what the pixels give."""
        return str(self.pixels.graph.output[0].name)

    @property
    def network_output(self) -> str:
        """Name of the output of the network inside a graft."""
        return str(self.network.graph.output[0].name)

    @property
    def nodes_behind(self) -> int:
        """Number of operators that turn raw features into vectors."""
        return 0 if self.vectors is None else len(self.vectors.graph.node)

    def joined(self) -> ModelProto:
        """Join all parts."""
        front = joined(self.pixels, self.network)
        return front if self.vectors is None else joined(front, self.vectors)


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
    pixels = _pixels(network.pixels, rule, images, opset)
    if isinstance(network.body, OnnxBody):
        return _foreign_front(network.body, rule, network.record.features, pixels)
    layers = static_network(network.body)
    return FrontGraph(
        pixels=prefixed(pixels, PIXELS, keep_inputs=True),
        network=prefixed(traced_network(layers, rule, network.record.features, opset), NETWORK),
        layers=layers,
    )


def _foreign_front(body: OnnxBody, rule: PixelRule, width: int, pixels: ModelProto) -> FrontGraph:
    """Put a user's network behind a graph of pixels, of the operator set that the whole will have."""
    opset = opset_of_model(pixels)
    graph = with_opset(cut_network(body.file, body.output), opset)
    element_type = graph.graph.input[0].type.tensor_type.elem_type
    give_pixels_as(pixels, element_type)
    trial = np.zeros((2, *input_shape(rule)), onnx.helper.tensor_dtype_to_np_dtype(element_type))
    (raw,) = ExposedModel(graph, [body.output], body.file).run({body.input: trial})
    _declare(graph, raw)
    vectors = vectors_of(raw, width, rule.resize or (rule.height, rule.width), opset)
    return FrontGraph(
        pixels=prefixed(pixels, PIXELS, keep_inputs=True),
        network=prefixed(graph, NETWORK),
        vectors=None if vectors is None else prefixed(vectors, VECTORS),
        own_opset=opset_of_file(body.file),
    )


def _declare(network: ModelProto, raw: NDArray[Any]) -> None:
    """Give the output of a network the type and shape that it was found to have."""
    output = network.graph.output[0]
    kind = onnx.helper.np_dtype_to_tensor_dtype(raw.dtype)
    output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, [BATCH, *raw.shape[1:]]))


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

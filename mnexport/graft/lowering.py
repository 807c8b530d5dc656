"""Front of a graft in 16 bits; pixels, features and head stay in float32.

Shapes: images [N, C, H, W], features [N, d].
"""

from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from mnexport.errors import FormError, GraphError, ParityError
from mnexport.forms.blank_images import with_blank_images
from mnexport.forms.mixed_precision import LoweredBackbone
from mnexport.graft.front import NETWORK, FrontGraph, traced_network
from mnexport.graft.network import GraftedNetwork
from mnexport.graft.opset import with_opset
from mnexport.graft.prefixing import prefixed
from mnexport.graft.sessions import ExposedModel
from mnexport.graph import BFLOAT16_OPSET
from mnexport.runtime import convert_float_to_float16
from mntrain.networks.onnx_part import names_used

SixteenBits = Literal["float16", "bfloat16"]
_TORCH_TYPES: dict[SixteenBits, torch.dtype] = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_FLOAT16_LIMIT = 65504.0
_CHECKED_IMAGES = 16


def check_lowerable_graft(graft: GraftedNetwork, dtype: str) -> None:
    """Refuse a network that has no such precision.

    Args:
        graft: with its network.
        dtype: of ``--dtype``.

    Raises:
        FormError: bfloat16 of an ONNX file, or int8 of a network without convolutions.
    """
    if dtype == "bfloat16" and graft.is_onnx:
        raise FormError(
            "--dtype bfloat16 traces the network in PyTorch anew, and this one is an ONNX file; take --dtype float16."
        )
    if dtype == "float16" and _input_type(graft.front.network) != TensorProto.FLOAT:
        raise FormError("The network of this head is of a lower precision already; leave --dtype out.")
    if dtype == "int8" and not any(node.op_type == "Conv" for node in graft.front.network.graph.node):
        raise FormError(
            "--dtype int8 quantises convolutions, and this network has none; take --dtype float32 or float16."
        )


def lowered_front(graft: GraftedNetwork, dtype: SixteenBits, images: NDArray[Any]) -> FrontGraph:
    """Rewrite the network of a graft in 16 bits.

    Args:
        graft: in float32.
        dtype: float16 or bfloat16.
        images: uint8; the network must have finite values for them.

    Raises:
        ParityError: a value of the network is beyond what 16 bits can hold.
        GraphError: the network cannot be rewritten.
    """
    front, images = graft.front, with_blank_images(images[:_CHECKED_IMAGES])
    with torch.inference_mode():
        inputs = graft.network.pixels(torch.from_numpy(images))
    if front.layers is None:
        lost = _beyond_float16(front.network, inputs.numpy())
        _refuse(lost, len(images), dtype)
        return replace(front, network=_as_float16(front.network))
    layers = LoweredBackbone(front.layers, _TORCH_TYPES[dtype]).eval().requires_grad_(False)
    with torch.inference_mode():
        features = layers(inputs)
    _refuse(int((~torch.isfinite(features).all(dim=1)).sum()), len(images), dtype)
    opset = max(front.opset, BFLOAT16_OPSET) if dtype == "bfloat16" else front.opset
    record = graft.network.record
    assert record.pixels is not None
    network = prefixed(traced_network(layers, record.pixels, record.features, opset), NETWORK)
    return replace(front, pixels=with_opset(front.pixels, opset), network=network, layers=layers)


def _input_type(network: ModelProto) -> int:
    return int(network.graph.input[0].type.tensor_type.elem_type)


def _as_float16(network: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(network)
    try:
        lowered: ModelProto = convert_float_to_float16(copy, keep_io_types=True)
    except Exception as error:  # whatever the converter raises
        reason = " ".join(str(error).split())
        raise GraphError(f"The network cannot be rewritten in float16 ({reason}); take --dtype float32.") from error
    _sort(lowered)
    return lowered


def _sort(model: ModelProto) -> None:
    """Put every node behind those it needs: the converter adds conversions at the end."""
    nodes = list(model.graph.node)
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order = TopologicalSorter(
        {
            index: sorted({producers[name] for name in names_used(node) if name in producers})
            for index, node in enumerate(nodes)
        }
    )
    del model.graph.node[:]
    model.graph.node.extend(nodes[index] for index in order.static_order())


def _beyond_float16(network: ModelProto, inputs: NDArray[Any]) -> int:
    """Count images with a value that float16 cannot hold; ONNX Runtime itself computes float16 in float32 on a CPU."""
    names = [name for node in network.graph.node for name in node.output if name]
    model, taken = ExposedModel(network, names, Path("the network")), network.graph.input[0].name
    values = (model.run({taken: image[None]}) for image in inputs)
    return sum(
        any(_too_large(value) for value in of_image if value.dtype == np.float32 and value.size) for of_image in values
    )


def _too_large(values: NDArray[Any]) -> bool:
    return not bool(np.abs(values).max() <= _FLOAT16_LIMIT)


def _refuse(lost: int, images: int, dtype: SixteenBits) -> None:
    if lost:
        raise ParityError(
            f"In {dtype} the network has values that {dtype} cannot hold, for {lost} of {images} images, three of them "
            "blank. Nothing was published; take --dtype float32."
        )

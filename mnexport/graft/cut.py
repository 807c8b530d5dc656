"""Cut of a user's ONNX file at the tensor that holds the features.

Nodes and weights of the part that is kept are those of the file; its metadata and its other outputs are left behind.
"""

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from mnexport.errors import GraphError
from mnexport.graft.opset import opset_of_model
from mntrain.networks.onnx_part import inner_graphs, names_used, needed_inputs, needed_nodes

MOST_BYTES = 2**31 - 1
"""Largest message of protobuf, so the largest ONNX file with its weights inside."""
_WEIGHTS_ALONE = 4
# Before this version of the format every weight is listed as an input, too.


def cut_network(file: Path, output: str) -> ModelProto:
    """Read an ONNX file and keep what computes one tensor of it.

    Args:
        file: of the user; weights may lie in files beside it.
        output: name of the tensor of the features.

    Returns:
        A graph with one input and one output, under their names in the file; the output has no type yet.

    Raises:
        GraphError: the file cannot be read or is too large, has no such tensor, a fixed batch, or several inputs.
    """
    model = _load(file)
    graph = model.graph
    nodes = _needed(graph, output, file)
    used = {name for node in nodes for name in names_used(node)}
    inputs = needed_inputs(graph, nodes)
    if len(inputs) != 1:
        names = ", ".join(item.name for item in inputs) or "none"
        raise GraphError(
            f"{file} computes {output!r} from {len(inputs)} inputs ({names}); a network in front of a head takes its "
            "images alone, so export it with one input."
        )
    _check_input(file, inputs[0])
    made = {name for node in nodes for name in node.output}
    _keep(graph.initializer, lambda item: item.name in used)
    _keep(graph.sparse_initializer, lambda item: item.values.name in used)
    _keep(graph.value_info, lambda item: item.name in made and item.name != output)
    _forget_shapes(graph)
    _keep(graph.quantization_annotation, lambda item: item.tensor_name in made | used)
    del graph.node[:], graph.input[:], graph.output[:], model.metadata_props[:], model.training_info[:]
    graph.node.extend(nodes)
    graph.input.append(inputs[0])
    graph.output.append(onnx.ValueInfoProto(name=output))
    model.ir_version = max(model.ir_version, _WEIGHTS_ALONE)
    return model


def opset_of_file(file: Path) -> int:
    """Read the operator set of an ONNX file, without its weights.

    Raises:
        GraphError: the file cannot be read.
    """
    return opset_of_model(_parse(file, weights=False))


def _load(file: Path) -> ModelProto:
    """Read a model with weights that lie in other files, if all of it fits into one.

    Raises:
        GraphError: it does not, or a file cannot be read.
    """
    outside = sum(_external_bytes(item) for item in _tensors(_parse(file, weights=False).graph))
    size = file.stat().st_size + outside
    if size > MOST_BYTES:
        raise GraphError(
            f"{file} and its weights take {size:,} bytes; one ONNX file holds at most {MOST_BYTES:,}, so this network "
            "cannot be joined with a head. Take a smaller one, or serve it as it is and the head by itself."
        )
    return _parse(file, weights=True)


def _parse(file: Path, *, weights: bool) -> ModelProto:
    try:
        return onnx.load(str(file), load_external_data=weights)
    except (OSError, DecodeError, ValueError, onnx.checker.ValidationError) as error:
        raise GraphError(
            f"{file} cannot be read as ONNX with its weights ({' '.join(str(error).split())}); keep the files of its "
            "weights beside it, and give the file whole."
        ) from error


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))
        for inner in inner_graphs(node):
            yield from _tensors(inner)


def _external_bytes(tensor: TensorProto) -> int:
    if tensor.data_location != TensorProto.EXTERNAL:
        return 0
    fields = {item.key: item.value for item in tensor.external_data}
    if fields.get("length", "").isdecimal():
        return int(fields["length"])
    count = 1
    for size in tensor.dims:
        count *= size
    return count * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _needed(graph: GraphProto, output: str, file: Path) -> list[NodeProto]:
    """List the nodes that a tensor is computed by, in their order.

    Raises:
        GraphError: no node computes it.
    """
    producers = [name for node in graph.node for name in node.output if name]
    if output not in producers:
        near = difflib.get_close_matches(output, producers, n=1) or [item.name for item in graph.output]
        raise GraphError(f"{file} computes no tensor {output!r}; the nearest name is {near[0]!r}.")
    return needed_nodes(graph, output)


def _forget_shapes(graph: GraphProto) -> None:
    """Drop the shapes of tensors inside a graph; their types stay.

    They are inferred from the input, while those of a file whose batch was freed are still of the old batch.
    """
    for item in graph.value_info:
        item.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for inner in inner_graphs(node):
            _forget_shapes(inner)


def _check_input(file: Path, value: onnx.ValueInfoProto) -> None:
    shape = [dim.dim_value or dim.dim_param or "?" for dim in value.type.tensor_type.shape.dim]
    if shape and isinstance(shape[0], int):
        raise GraphError(
            f"{file} takes {value.name!r} of shape {shape}, a fixed batch of {shape[0]}; a server joins requests, so "
            "export it with a batch axis of any size (dynamic_axes or dynamic_shapes in torch.onnx.export)."
        )


def _keep(items: Any, wanted: Callable[[Any], bool]) -> None:
    """Drop the items of a repeated field that are not wanted."""
    kept = [item for item in items if wanted(item)]
    del items[:]
    items.extend(kept)

"""A prefix before every name of an ONNX model, inside branches and loops, too."""

from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto, NodeProto, compose

from mntrain.networks.onnx_part import inner_graphs


def prefixed(model: ModelProto, prefix: str, *, keep_inputs: bool = False, keep_outputs: bool = False) -> ModelProto:
    """Put a prefix before every name of a graph; a copy.

    Args:
        model: a whole model.
        prefix: such as ``network/``.
        keep_inputs: inputs keep their names.
        keep_outputs: outputs keep their names.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    kept = {item.name for item in copy.graph.input if keep_inputs}
    kept |= {item.name for item in copy.graph.output if keep_outputs}
    compose.add_prefix_graph(
        copy.graph,
        prefix,
        rename_inputs=not keep_inputs,
        rename_outputs=not keep_outputs,
        inplace=True,
        # All names before any is changed: graphs inside nodes take tensors and weights from those around them.
        name_map={name: prefix + name for name in _names(copy.graph) if name and name not in kept},
    )
    _prefix_functions(copy, prefix)
    return copy


def _nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and all inside them."""
    for node in nodes:
        yield node
        for inner in inner_graphs(node):
            yield from _nodes(inner.node)


def _names(graph: GraphProto) -> Iterator[str]:
    """Names that a graph, and all inside it, give to tensors."""
    for node in graph.node:
        yield from node.output
        for inner in inner_graphs(node):
            yield from _names(inner)
    yield from (item.name for item in graph.input)
    yield from (item.name for item in graph.initializer)
    for item in graph.sparse_initializer:
        yield from (item.values.name, item.indices.name)


def _prefix_functions(model: ModelProto, prefix: str) -> None:
    """Rename the functions of a model, and the nodes that call them."""
    functions = {(item.domain, item.name) for item in model.functions}
    parts = [model.graph.node, *(item.node for item in model.functions)]
    for node in (node for part in parts for node in _nodes(part)):
        if (node.domain, node.op_type) in functions:
            node.op_type = prefix + node.op_type
    for item in model.functions:
        item.name = prefix + item.name

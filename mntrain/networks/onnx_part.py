"""Part of an ONNX graph that a tensor is computed by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def needed_nodes(graph: Any, output: str) -> list[Any]:
    """List the nodes that a tensor is computed by, in their order; none for a tensor that is not computed."""
    producers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    kept, open_ends = set(), [output]
    while open_ends:
        index = producers.get(open_ends.pop())
        if index is not None and index not in kept:
            kept.add(index)
            open_ends += names_used(graph.node[index])
    return [graph.node[index] for index in sorted(kept)]


def needed_inputs(graph: Any, nodes: list[Any]) -> list[Any]:
    """List the inputs of a graph that nodes take and that are no weights."""
    constants = {item.name for item in graph.initializer} | {item.values.name for item in graph.sparse_initializer}
    used = {name for node in nodes for name in names_used(node)}
    return [item for item in graph.input if item.name in used and item.name not in constants]


def leave_other_inputs(graph: Any, output: str) -> None:
    """Leave out inputs that a tensor does not need, and what is computed from them; the graph is changed.

    A graph whose inputs are all needed stays whole: ONNX Runtime may compute a part in other ways than the whole.
    """
    nodes = needed_nodes(graph, output)
    needed = {item.name for item in needed_inputs(graph, nodes)}
    constants = {item.name for item in graph.initializer}
    if all(item.name in needed or item.name in constants for item in graph.input):
        return
    kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
    inputs = [
        type(item).FromString(item.SerializeToString())
        for item in graph.input
        if item.name in needed or item.name in constants
    ]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(kept)
    graph.input.extend(inputs)


def inner_graphs(node: Any) -> Iterator[Any]:
    """Graphs inside a node, such as the branches of If."""
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def names_used(node: Any) -> Iterator[str]:
    """Names that a node takes, and graphs inside it take from outside."""
    yield from (name for name in node.input if name)
    for inner in inner_graphs(node):
        for child in inner.node:
            yield from names_used(child)
        yield from (item.name for item in inner.output)

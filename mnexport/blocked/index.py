"""Index of an ONNX graph: producers, consumers, constants and shapes of its values."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]


class GraphIndex:
    """Index of a graph, which must not change meanwhile.

    Args:
        model: its graph; ``onnx.shape_inference`` adds shapes.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        self.nodes: tuple[onnx.NodeProto, ...] = tuple(graph.node)
        """Nodes in an order in which they can be computed."""
        self.outputs = tuple(item.name for item in graph.output)
        self._constants = {item.name: item for item in graph.initializer}
        self._producers = {name: node for node in self.nodes for name in node.output}
        self._consumers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self._consumers[name].append(node)
        self._shapes = {
            item.name: tuple(dim.dim_value or -1 for dim in item.type.tensor_type.shape.dim)
            for item in [*graph.value_info, *graph.input, *graph.output]
        }

    @property
    def names(self) -> set[str]:
        """Names of all values."""
        made = {name for node in self.nodes for name in node.output}
        return made | self._constants.keys() | self._shapes.keys()

    def producer(self, name: str) -> onnx.NodeProto | None:
        """Return the node that makes a value; None for inputs and constants."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that take a value."""
        return self._consumers.get(name, [])

    def only_consumer(self, name: str, operator: str) -> onnx.NodeProto | None:
        """Return the only node that takes a value; None where it is no ``operator``, or the value is an output."""
        takers = self.consumers(name)
        return takers[0] if len(takers) == 1 and takers[0].op_type == operator and name not in self.outputs else None

    def constant(self, name: str) -> Array | None:
        """Return the value of a constant; None for other values."""
        tensor = self._constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value; -1 for an unknown axis, () also for an unknown shape."""
        return self._shapes.get(name, ())


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Read the attributes of a node as plain values."""
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def with_names(node: onnx.NodeProto, rename: Callable[[str], str]) -> onnx.NodeProto:
    """Copy a node and rename its inputs and outputs."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    copy.input.extend(name and rename(name) for name in node.input)
    copy.output.extend(name and rename(name) for name in node.output)
    copy.name = ""
    return copy

"""Who makes and who takes every value of an ONNX graph, with its constants and shapes."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]


class GraphIndex:
    """A graph to look things up in; it must not change meanwhile.

    Args:
        model: with the shapes that ``onnx.shape_inference`` finds.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        self.nodes: tuple[onnx.NodeProto, ...] = tuple(graph.node)
        """In an order in which they can be computed."""
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
        """Of all values."""
        made = {name for node in self.nodes for name in node.output}
        return made | self._constants.keys() | self._shapes.keys()

    def producer(self, name: str) -> onnx.NodeProto | None:
        """The node that makes a value; None for inputs and constants."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """The nodes that take a value."""
        return self._consumers.get(name, [])

    def only_consumer(self, name: str, operator: str) -> onnx.NodeProto | None:
        """The one node that takes a value, where it is one ``operator`` and the value is no output of the graph."""
        found = self.consumers(name)
        return found[0] if len(found) == 1 and found[0].op_type == operator and name not in self.outputs else None

    def constant(self, name: str) -> Array | None:
        """The value of a constant."""
        found = self._constants.get(name)
        return None if found is None else numpy_helper.to_array(found)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value; -1 for what is not known, () also where nothing is."""
        return self._shapes.get(name, ())


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node as plain values."""
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def with_names(node: onnx.NodeProto, rename: Callable[[str], str]) -> onnx.NodeProto:
    """A copy of a node whose inputs and outputs have other names."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    copy.input.extend(name and rename(name) for name in node.input)
    copy.output.extend(name and rename(name) for name in node.output)
    copy.name = ""
    return copy

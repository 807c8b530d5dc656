"""Node list of a new graph, with the constants that its nodes take.

Names that are made here have a colon, names of the source have none, so that no two are the same.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

Array = npt.NDArray[Any]


class NodeList:
    """Collector of nodes and constants.

    Args:
        prefix: of the names that are made here.

    Attributes:
        nodes: in the order in which they were added.
        constants: by name.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def add(self, operator: str, inputs: list[str], output: str, domain: str = "", **settings: Any) -> str:
        """Add a node with one output and return the name of the output."""
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **settings))
        return output

    def product(self, operator: str, left: str, name: str, right: Array) -> str:
        """Add a node whose right side is a constant called ``name``."""
        return self.add(operator, [left, self.constant(name, right)], f"{self._prefix}:{name}")

    def reshaped(self, name: str, shape: list[int], output: str) -> str:
        """Add a node that reshapes a value."""
        target_shape = self.constant("shape:" + "x".join(map(str, shape)), np.array(shape, np.int64))
        return self.add("Reshape", [name, target_shape], output)

    def constant(self, name: str, value: Array) -> str:
        """Add a constant and return its full name."""
        full_name = f"constant:{self._prefix}:{name}"
        self.constants[full_name] = np.asarray(value, order="C")
        return full_name

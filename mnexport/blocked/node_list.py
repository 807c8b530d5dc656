"""Nodes of a new graph, and the constants they take.

Names that are made here have a colon behind what they are made from, names of the source none: so no two are the same.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

Array = npt.NDArray[Any]


class Emitted:
    """Collects nodes.

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
        """A node with one output; the name of that."""
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **settings))
        return output

    def product(self, operator: str, left: str, name: str, right: Array) -> str:
        """A node whose right side is a constant called ``name``."""
        return self.add(operator, [left, self.constant(name, right)], f"{self._prefix}:{name}")

    def reshaped(self, name: str, shape: list[int], output: str) -> str:
        """A value in another shape."""
        wanted = self.constant("shape:" + "x".join(map(str, shape)), np.array(shape, np.int64))
        return self.add("Reshape", [name, wanted], output)

    def constant(self, name: str, value: Array) -> str:
        """The full name of a constant."""
        own = f"constant:{self._prefix}:{name}"
        self.constants[own] = np.asarray(value, order="C")
        return own

"""Whether the processor that runs a graph has the layout that the graph was written for, as a part of the graph.

A few numbers enter the layout; where one of them then lies says how many channels stand side by side.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from mnexport.blocked.layout import DOMAIN

Array = npt.NDArray[Any]


def guard(block: int) -> tuple[list[NodeProto], dict[str, Array], str]:
    """Nodes, their constants, and the name of the answer, one bool."""
    # Whole blocks on every processor: those of 8 and 16 channels divide 16 and 32.
    channels = 2 * block
    maps = np.arange(channels * 2, dtype=np.float32).reshape(1, channels, 1, 2)
    # The first channel's second number lies behind the first numbers of one block of channels.
    found = np.unravel_index(block, maps.shape)
    constants: dict[str, Array] = {
        "blocked:guard.maps": maps,
        "blocked:guard.start": np.array(found, np.int64),
        "blocked:guard.end": np.array(found, np.int64) + 1,
        "blocked:guard.expected": maps[:1, :1, :1, 1:],
    }
    place = ["blocked:guard.reordered", "blocked:guard.start", "blocked:guard.end"]
    nodes = [
        helper.make_node("ReorderInput", ["blocked:guard.maps"], ["blocked:guard.reordered"], domain=DOMAIN),
        helper.make_node("Slice", place, ["blocked:guard.number"]),
        helper.make_node("Equal", ["blocked:guard.number", "blocked:guard.expected"], ["blocked:guard.equal"]),
        helper.make_node("Reshape", ["blocked:guard.equal", "blocked:1"], ["blocked:guard.holds"]),
    ]
    return nodes, constants, "blocked:guard.holds"

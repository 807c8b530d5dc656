"""Guard: nodes that compare the processor's layout with the layout that a graph was written for.

A few numbers enter the layout; the position of one of them tells how many channels stand side by side.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from mnexport.blocked.layout import DOMAIN

Array = npt.NDArray[Any]


def guard(block: int) -> tuple[list[NodeProto], dict[str, Array], str]:
    """Make the nodes, their constants, and the name of the answer, one bool [1]."""
    # Whole blocks on every processor: those of 8 and 16 channels divide 16 and 32.
    channels = 2 * block
    maps = np.arange(channels * 2, dtype=np.float32).reshape(1, channels, 1, 2)
    # The first channel's second number lies behind the first numbers of one block of channels.
    position = np.unravel_index(block, maps.shape)
    constants: dict[str, Array] = {
        "blocked:guard.maps": maps,
        "blocked:guard.start": np.array(position, np.int64),
        "blocked:guard.end": np.array(position, np.int64) + 1,
        "blocked:guard.expected": maps[:1, :1, :1, 1:],
    }
    slice_inputs = ["blocked:guard.reordered", "blocked:guard.start", "blocked:guard.end"]
    nodes = [
        helper.make_node("ReorderInput", ["blocked:guard.maps"], ["blocked:guard.reordered"], domain=DOMAIN),
        helper.make_node("Slice", slice_inputs, ["blocked:guard.number"]),
        helper.make_node("Equal", ["blocked:guard.number", "blocked:guard.expected"], ["blocked:guard.equal"]),
        helper.make_node("Reshape", ["blocked:guard.equal", "blocked:1"], ["blocked:guard.holds"]),
    ]
    return nodes, constants, "blocked:guard.holds"

"""Blocked layout, in which ONNX Runtime's CPU provider keeps maps between convolutions.

Maps [B, C, H, W] lie in memory as [B, C/b, H, W, b], with b channels side by side for one vector instruction; b depends
on the processor (16 with AVX-512, 8 with AVX2). The operators of that layout have a domain of their own and look to
ONNX like the ordinary ones; their filters are packed as the kernels read them:

    [O, I, h, w]  as  [O/b, I/b, h, w, b of I, b of O], or, where fewer than b channels come in, [O/b, I, h, w, b of O].
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from mnexport.runtime import onnxruntime as ort

DOMAIN = "com.microsoft.nchwc"
_IR_VERSION, _OPSET = 10, 20

Array = npt.NDArray[Any]


def pack_filter(weight: Array, block: int) -> Array:
    """Pack a filter [O, I, h, w] as the kernels read it, O a multiple of ``block``; the shape stays the same."""
    outputs, inputs, height, width = weight.shape
    by_output = weight.reshape(outputs // block, block, inputs, height, width)
    if inputs < block:
        packed = by_output.transpose(0, 2, 3, 4, 1)
    else:
        both = by_output.reshape(outputs // block, block, inputs // block, block, height, width)
        packed = both.transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(packed).reshape(weight.shape)


@cache
def block_size() -> int | None:
    """Measure b on this processor; None where ONNX Runtime has no such layout."""
    channels = 128
    maps = np.arange(2 * channels, dtype=np.float32).reshape(1, channels, 1, 2)
    graph = helper.make_graph(
        [helper.make_node("ReorderInput", ["maps"], ["blocked"], domain=DOMAIN)],
        "block size",
        [helper.make_tensor_value_info("maps", onnx.TensorProto.FLOAT, maps.shape)],
        [helper.make_tensor_value_info("blocked", onnx.TensorProto.FLOAT, maps.shape)],
    )
    domains = [helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=_IR_VERSION)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (blocked,) = session.run(None, {"maps": maps})
    except Exception:  # noqa: BLE001 (the runtime's exceptions have no base of their own)
        return None
    # Value 1 is channel 0 at the second position: behind the b channels of the first.
    block = int(np.flatnonzero(np.ravel(blocked) == 1)[0])
    return block if block > 1 else None

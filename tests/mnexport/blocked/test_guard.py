"""Guard of the layout in the graph."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mnexport.blocked.guard import guard
from mnexport.blocked.layout import DOMAIN, block_size

pytestmark = pytest.mark.skipif(block_size() is None, reason="ONNX Runtime has no blocked layout on this processor")


def holds(block: int) -> bool:
    nodes, constants, answer = guard(block)
    constants["blocked:1"] = np.array([1], np.int64)
    graph = helper.make_graph(
        nodes,
        "guard",
        [],
        [helper.make_tensor_value_info(answer, TensorProto.BOOL, [1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    domains = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (answer_value,) = session.run(None, {})
    assert answer_value.shape == (1,)
    return bool(answer_value[0])


@pytest.mark.parametrize("block", [8, 16])
def test_the_guard_holds_for_the_block_of_this_processor_only(block: int) -> None:
    assert holds(block) is (block == block_size())

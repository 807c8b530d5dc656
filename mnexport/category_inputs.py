"""Categories as strings in front of a traced graph, which takes their codes.

Shapes: ``row`` float32 [batch, Fn], ``categories`` strings [batch, Fc], stored row float32 [batch, Fn + Fc]: numbers,
then one code for each category.

ONNX has one operator from strings to numbers that servers run everywhere: LabelEncoder of ``ai.onnx.ml``, one for each
column. A string that it does not know becomes −1.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mnexport.signature import CATEGORIES, ExportSignature

STORED_ROW = "stored_row"
"""Name of the input of the traced graph, which is no input of the file."""
_DOMAIN = "ai.onnx.ml"
_VERSION = 3
_TYPES = {"FP32": TensorProto.FLOAT, "BYTES": TensorProto.STRING}


def take_categories(model: onnx.ModelProto, signature: ExportSignature, batch: str) -> None:
    """Put the inputs of a signature in place of ``stored_row``; the model is changed.

    Args:
        model: traced from stored rows.
        signature: of the file, with a vocabulary for each category column.
        batch: name of the batch axis.
    """
    graph = model.graph
    nodes, parts = [], [tensor.name for tensor in signature.inputs if tensor.name != CATEGORIES]
    for column, values in enumerate(signature.vocabularies):
        position, strings, code = (f"category_{column}_{what}" for what in ("position", "strings", "code"))
        graph.initializer.append(numpy_helper.from_array(np.array([column], dtype=np.int64), position))
        nodes += [
            helper.make_node("Gather", [CATEGORIES, position], [strings], strings, axis=1),
            helper.make_node(
                "LabelEncoder",
                [strings],
                [code],
                code,
                domain=_DOMAIN,
                keys_strings=[value.encode() for value in values],
                values_floats=[float(number) for number in range(len(values))],
                default_float=-1.0,
            ),
        ]
        parts.append(code)
    nodes.append(helper.make_node("Concat", parts, [STORED_ROW], STORED_ROW, axis=1))
    traced = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.node.extend([*nodes, *traced])
    graph.input.extend(
        helper.make_tensor_value_info(tensor.name, _TYPES[tensor.datatype], [batch, *tensor.shape])
        for tensor in signature.inputs
    )
    model.opset_import.append(helper.make_opsetid(_DOMAIN, _VERSION))

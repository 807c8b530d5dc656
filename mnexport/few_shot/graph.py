"""Graph of a few-shot classifier: the nearest mean of the support set, in closed form (Snell et al., NIPS 2017).

Shapes: support images [K, channels, H, W] and labels int64 [K] from 0 on, images [Q, channels, H, W]; features [·, d],
members of the classes [K, W], means [W, d], logits and probabilities [Q, W].
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper, numpy_helper

from mnexport.errors import GraphError
from mnexport.few_shot.signature import IMAGE, LABELS, SUPPORT
from mnexport.graph import GraphReport, describe
from mnexport.signature import ExportSignature

_OWN = "few_shot/"
_ELEMENT_TYPES = {
    "UINT8": onnx.TensorProto.UINT8,
    "FP32": onnx.TensorProto.FLOAT,
    "INT64": onnx.TensorProto.INT64,
}
_COUNTS = {SUPPORT: "supports", LABELS: "supports", IMAGE: "images"}
_CONSTANTS: dict[str, npt.NDArray[Any]] = {
    "zero": np.array([0], np.int64),
    "start": np.array(0, np.int64),
    "one": np.array(1, np.int64),
    "second": np.array([1], np.int64),
    "end": np.array([np.iinfo(np.int64).max], np.int64),
    "off_on": np.array([0, 1], np.float32),
    "nothing": np.array(0, np.float32),
    "single": np.array(1, np.float32),
    "two": np.array(2, np.float32),
    "lowest": np.array(np.finfo(np.float32).min, np.float32),
}


def write_few_shot_graph(features: Path, signature: ExportSignature, file: Path) -> GraphReport:
    """Put the comparison of features behind a graph that computes them.

    There are as many classes as the largest label says, and no more than support images, so that no label makes an
    answer large. A class without a support image has the lowest logit there is. ONNX Runtime fails on the CPU where a
    label is negative or names more classes than there are support images; elsewhere such an image is left out. It fails
    where labels are more or fewer than support images, whose matrices then have no product.

    Args:
        features: file of a graph from images to features [·, d].
        signature: of the whole graph.
        file: to write.

    Raises:
        GraphError: the result is not valid.
    """
    model = onnx.load(str(features))
    graph = model.graph
    taken, given = graph.input[0].name, graph.output[0].name
    joined = f"{_OWN}images"
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == taken:
                node.input[index] = joined
    nodes = [
        helper.make_node("Concat", [SUPPORT, IMAGE], [joined], name=f"{_OWN}Concat", axis=0),
        *graph.node,
        *_comparison(given),
    ]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(value, f"{_OWN}{name}") for name, value in _CONSTANTS.items())
    for tensor in signature.inputs:
        shape: list[str | int | None] = [_COUNTS[tensor.name], *tensor.shape[1:]]
        graph.input.append(helper.make_tensor_value_info(tensor.name, _ELEMENT_TYPES[tensor.datatype], shape))
    for tensor in signature.outputs:
        graph.output.append(
            helper.make_tensor_value_info(tensor.name, _ELEMENT_TYPES[tensor.datatype], ["images", "classes"])
        )
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise GraphError(f"The few-shot graph is not valid ONNX: {error}") from error
    onnx.save(model, str(file))
    return describe(file)


def _comparison(features: str) -> list[NodeProto]:
    """List the nodes from features [K + Q, d] to logits and probabilities.

    Distances are taken from the mean c of the support features: −‖z − p‖² = 2 z'·p' − ‖p'‖² − ‖z'‖² with z' = z − c.
    """
    nodes: list[NodeProto] = []

    def add(operator: str, inputs: str, output: str, **attributes: Any) -> str:
        names = [_name(name, features) for name in inputs.split()]
        nodes.append(
            helper.make_node(operator, names, [_name(output, features)], name=f"{_OWN}{output}_node", **attributes)
        )
        return output

    add("Shape", SUPPORT, "count", start=0, end=1)
    add("Slice", "FEATURES zero count zero", "supports")
    add("Slice", "FEATURES count end zero", "queries")
    add("ReduceMax", LABELS, "last", keepdims=0)
    add("Add", "last one", "classes_named")
    add("Squeeze", "count", "most_classes")
    add("Min", "classes_named most_classes", "classes")
    # OneHot would count a negative label from the last class on, and a large one as none; Gather refuses both.
    add("Less", f"{LABELS} zero", "negative")
    add("Where", f"negative classes {LABELS}", "within")
    add("Range", "start classes one", "numbers")
    add("Gather", "numbers within", "found")
    add("Max", "found within", "labels")
    add("OneHot", "labels classes off_on", "members", axis=-1)
    add("Transpose", "members", "by_class", perm=[1, 0])
    add("ReduceSum", "by_class second", "shots", keepdims=1)
    add("Max", "shots single", "divisor")
    add("ReduceMean", "supports zero", "center", keepdims=1)
    add("Sub", "supports center", "supports_around")
    add("Sub", "queries center", "queries_around")
    add("MatMul", "by_class supports_around", "sums")
    add("Div", "sums divisor", "means")
    add("Transpose", "means", "means_across", perm=[1, 0])
    add("MatMul", "queries_around means_across", "products")
    add("Mul", "products two", "doubled")
    add("Mul", "means means", "mean_squares")
    add("ReduceSum", "mean_squares second", "mean_lengths", keepdims=0)
    add("Mul", "queries_around queries_around", "query_squares")
    add("ReduceSum", "query_squares second", "query_lengths", keepdims=1)
    add("Sub", "doubled mean_lengths", "without_query")
    add("Sub", "without_query query_lengths", "distances")
    add("Greater", "shots nothing", "present_column")
    add("Transpose", "present_column", "present", perm=[1, 0])
    add("Where", "present distances lowest", "logits")
    add("Softmax", "logits", "probabilities", axis=-1)
    return nodes


def _name(name: str, features: str) -> str:
    if name == "FEATURES":
        return features
    return name if name in (SUPPORT, LABELS, "logits", "probabilities") else f"{_OWN}{name}"

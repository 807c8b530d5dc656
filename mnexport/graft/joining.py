"""Joining of ONNX graphs end to end; names of each have a prefix of their own, so that none clash."""

from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import ModelProto, compose

from mnexport.errors import GraphError
from mnexport.graph import GraphReport, check_graph, describe


def joined(first: ModelProto, second: ModelProto) -> ModelProto:
    """Put a graph behind another: the one output of the first is the one input of the second.

    Args:
        first: graph in front; of the same operator set as the second.
        second: graph behind.

    Raises:
        GraphError: the graphs do not fit each other.
    """
    front, back = ModelProto(), ModelProto()
    for copy, part in ((front, first), (back, second)):
        copy.CopyFrom(part)
        copy.ir_version = max(first.ir_version, second.ir_version)
        del copy.metadata_props[:]
    ends = [(first.graph.output[0].name, second.graph.input[0].name)]
    try:
        model: ModelProto = compose.merge_models(front, back, io_map=ends)
    except (ValueError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).split())
        raise GraphError(f"The network and the head cannot be joined to one graph: {reason}") from error
    versions = {item.domain: item.version for item in model.opset_import}
    del model.opset_import[:]  # each part has brought its own
    model.opset_import.extend(onnx.helper.make_opsetid(domain, number) for domain, number in versions.items())
    return model


def save_joined(model: ModelProto, metadata: Mapping[str, str], file: Path) -> GraphReport:
    """Check a joined model and write it.

    Args:
        model: it gets the metadata.
        metadata: written into the file.
        file: to write.

    Raises:
        GraphError: the model is not valid.
    """
    model.producer_name, model.producer_version = "mnexport", metadata.get("mn.version", "")
    onnx.helper.set_model_props(model, dict(metadata))
    check_graph(model)
    onnx.save(model, str(file))
    return describe(file)

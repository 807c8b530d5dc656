"""Operator sets of a graft: all of a model has one, so a network of an old one is brought to a newer one."""

import onnx
from onnx import ModelProto, version_converter

from mnexport.errors import GraphError

OLDEST, NEWEST = 18, 25
"""Operator sets that PyTorch writes the other parts in."""


def grafted_opset(network: int, wanted: int) -> int:
    """Choose the operator set of a graft: that of the network, where the other parts can have it.

    Args:
        network: operator set of the user's file.
        wanted: ``--opset``, for networks of an older or a newer one.
    """
    return network if OLDEST <= network <= NEWEST else wanted


def opset_of_model(model: ModelProto) -> int:
    """Read the operator set of a model."""
    return int(next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 1))


def with_opset(model: ModelProto, opset: int) -> ModelProto:
    """Bring a model to an operator set; a model that has it is returned as it is.

    Raises:
        GraphError: an operator has no counterpart in that set.
    """
    own = opset_of_model(model)
    if own == opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except (RuntimeError, ValueError, version_converter.ConvertError, onnx.checker.ValidationError) as error:
        reason = " ".join(str(error).split())
        raise GraphError(
            f"The network is of ONNX operator set {own} and cannot be brought to {opset} ({reason}); export it again "
            f"with operator set {OLDEST} to {NEWEST}."
        ) from error

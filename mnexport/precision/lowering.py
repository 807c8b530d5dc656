"""Rewriting of a float32 export that passed parity as one whose backbone is computed in 16 or 8 bits."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from mnexport.errors import FormError, ParityError
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.blank_images import with_blank_images
from mnexport.forms.explained import ExplainedClassifier
from mnexport.forms.mixed_precision import with_lowered_backbone
from mnexport.graft.lowering import check_lowerable_graft
from mnexport.graft.network import GraftedNetwork
from mnexport.graph import BFLOAT16_OPSET, write_onnx
from mnexport.parity.runners import Examples, Runner, module_runner, onnxruntime_runner
from mnexport.precision.accuracy import Precision
from mnexport.precision.quantization import quantize
from mnexport.signature import ExportSignature

# Images that are computed in 16 bits before anything is written.
_CHECKED_EXAMPLES = 64
_TORCH_TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def check_lowerable(module: nn.Module, precision: Precision, graft: GraftedNetwork | None = None) -> None:
    """Refuse a static form without a backbone that can be computed in fewer bits.

    Args:
        module: static form.
        precision: asked for.
        graft: frozen network in front of the form, which is its backbone.

    Raises:
        FormError: the form has no backbone, or not in this dtype.
    """
    if not precision.lower:
        return
    if graft is not None:
        check_lowerable_graft(graft, precision.dtype)
        return
    if not isinstance(module, DeployedClassifier | ExplainedClassifier):
        raise FormError(
            f"--dtype {precision.dtype} lowers the backbone that a classifier stands on; a regressor, adapted or not, "
            "is one network without a backbone, so take --dtype float32."
        )
    if precision.dtype == "int8" and not any(isinstance(part, nn.Conv2d) for part in module.modules()):
        raise FormError(
            "--dtype int8 quantises convolutions, and the backbone of this model has no convolution; take --dtype "
            "float32, float16 or bfloat16."
        )


def opset_of(precision: Precision, opset: int) -> int:
    """Return the operator set of a file: the one asked for, or a later one where the dtype demands it."""
    return max(opset, BFLOAT16_OPSET) if precision.dtype == "bfloat16" else opset


def lower(
    module: nn.Module,
    file: Path,
    signature: ExportSignature,
    precision: Precision,
    opset: int,
    metadata: dict[str, str],
    calibration: Examples,
) -> tuple[str, Runner]:
    """Rewrite the float32 file in the lower precision.

    Args:
        module: the static form in float32; not changed.
        file: exported from it, and equal to it.
        signature: of the file.
        precision: of the new file.
        opset: ONNX operator set.
        metadata: written into the file.
        calibration: images that int8 takes the ranges of activations from, and that 16 bits must have answers to.

    Returns:
        Name of the engine that computes the answers of the new file, and the answers.

    Raises:
        ParityError: an answer of the backbone in 16 bits is not finite.
    """
    if precision.dtype == "int8":
        quantize(file, signature, calibration)
        return "onnxruntime", onnxruntime_runner(file, signature)
    lowered = with_lowered_backbone(module, _TORCH_TYPES[precision.dtype])
    _check_finite(lowered, signature, precision, with_blank_images(calibration[:_CHECKED_EXAMPLES]))
    write_onnx(lowered, signature, opset_of(precision, opset), metadata, file)
    if precision.dtype == "bfloat16":
        # ONNX Runtime's CPU provider has no bfloat16 convolution.
        return "PyTorch", module_runner(lowered, signature)
    return "onnxruntime", onnxruntime_runner(file, signature)


def _check_finite(module: nn.Module, signature: ExportSignature, precision: Precision, examples: Examples) -> None:
    """Refuse a backbone that overflows where a GPU computes it: ONNX Runtime computes float16 in float32 on a CPU.

    Raises:
        ParityError: an answer is not finite.
    """
    answers = module_runner(module, signature)(examples)
    lost = sum(not np.isfinite(array).all() for array in answers["probabilities"])
    if lost:
        raise ParityError(
            f"In {precision.dtype} the backbone has activations that {precision.dtype} cannot hold, or divides by what "
            f"it rounds to 0: {lost} of {len(examples)} images, three of them blank, get no finite answer. Nothing was "
            f"published; take --dtype "
            f"{'bfloat16 or ' if precision.dtype == 'float16' else ''}float32."
        )

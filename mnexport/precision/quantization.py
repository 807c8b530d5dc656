"""Quantisation of the backbone's convolutions to int8 by ONNX Runtime; everything else stays as it is.

Quantise–dequantise pairs stand around every convolution, symmetric and per output channel. So that TensorRT reads them
too, biases stay float32, and ONNX Runtime quantises them when it loads the file.
"""

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

from mnexport.errors import GraphError
from mnexport.parity.runners import Examples
from mnexport.runtime import onnxruntime, quant_utils, quantization
from mnexport.signature import ExportSignature

_BATCH = 32
_OPERATORS = ["Conv"]


def quantize(file: Path, signature: ExportSignature, examples: Examples) -> None:
    """Quantise an ONNX file in place.

    Args:
        file: float32.
        signature: its input.
        examples: calibration images; ranges of activations are taken from them.

    Raises:
        GraphError: the file has no convolution, or cannot be quantised.
        OSError: the disk is full.
    """
    whole = onnx.load(str(file))
    if not any(node.op_type in _OPERATORS for node in whole.graph.node):
        raise GraphError("The backbone has no convolution, so there is nothing to quantise; take --dtype float32.")
    prepared = file.with_name("prepared.onnx")
    level = logging.root.level
    logging.root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _prepare(file, prepared)
            quantization.quantize_static(
                str(prepared),
                str(file),
                _Reader(signature, examples),
                quant_format=quantization.QuantFormat.QDQ,
                op_types_to_quantize=_OPERATORS,
                per_channel=True,
                activation_type=quantization.QuantType.QInt8,
                weight_type=quantization.QuantType.QInt8,
                nodes_to_exclude=_sums(onnx.load(str(prepared))),
                extra_options={"ActivationSymmetric": True, "QuantizeBias": False},
            )
    except (OSError, GraphError):  # a full disk is told where the folder was made
        raise
    except Exception as error:  # whatever the quantiser raises
        raise GraphError(f"ONNX Runtime cannot quantise the exported graph: {error}") from error
    finally:
        logging.root.setLevel(level)
        prepared.unlink(missing_ok=True)
    lowered = onnx.load(str(file))
    lowered.producer_name, lowered.producer_version = whole.producer_name, whole.producer_version
    del lowered.metadata_props[:]
    lowered.metadata_props.extend(whole.metadata_props)
    onnx.save(lowered, str(file))


def _prepare(file: Path, prepared: Path) -> None:
    """Fold normalisation into convolutions, so that both are quantised together, and infer shapes.

    ``quant_pre_process`` of ONNX Runtime does the same, but on a full disk it prints a traceback and goes on with the
    graph as it was, or with half a file.

    Raises:
        GraphError: the graph cannot be folded.
        OSError: the disk is full.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(prepared)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exception types share no public base class
        # A full disk fails this write too; ONNX Runtime does not tell one from other errors.
        prepared.write_bytes(bytes(file.stat().st_size))
        raise GraphError(f"ONNX Runtime cannot prepare the exported graph to be quantised: {error}") from error
    model = onnx.shape_inference.infer_shapes(onnx.load(str(prepared)))
    quant_utils.add_pre_process_metadata(model)
    onnx.save(model, str(prepared))


def _sums(model: onnx.ModelProto) -> list[str]:
    """Name convolutions that add up patches, with kernels of ones: sums of squares have too wide a range for 8 bits."""
    ones = {
        item.name
        for item in model.graph.initializer
        if len(item.dims) == 4 and item.dims[1] == 1 and bool((onnx.numpy_helper.to_array(item) == 1).all())
    }
    return [node.name for node in model.graph.node if node.op_type == "Conv" and node.input[1] in ones]


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Reader of calibration images in batches."""

    def __init__(self, signature: ExportSignature, examples: Examples) -> None:
        self._batches: Iterator[dict[str, Any]] = (
            signature.feeds(examples[start : start + _BATCH]) for start in range(0, len(examples), _BATCH)
        )

    def get_next(self) -> dict[str, Any] | None:
        """Return the next batch, None at the end."""
        return next(self._batches, None)

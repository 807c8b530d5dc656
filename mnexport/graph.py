"""ONNX files of static forms.

Shapes: inputs ``image`` [batch, channels, H, W], or ``row`` [batch, Fn] and ``categories`` [batch, Fc]; outputs
``logits`` and ``probabilities`` [batch, classes], or ``value`` [batch, T].
"""

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import onnx
import onnx.utils
import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from mnexport.category_inputs import STORED_ROW, take_categories
from mnexport.errors import GraphError, UsageError
from mnexport.signature import ExportSignature, InputType

BATCH = "batch"
# The first operator set whose convolution takes bfloat16; no other export uses it.
BFLOAT16_OPSET = 22
# ONNX Runtime's CPU Einsum kills the process when a batch of 0 rows reaches it.
_FORBIDDEN_OPERATORS = frozenset({"Einsum"})
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TORCH_TYPES = {"uint8": torch.uint8, "float32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """Input type and operator set of an ONNX file.

    Args:
        input_type: of images: uint8 takes pixels 0..255, float32 pixels 0..1; normalisation is inside the graph either
            way. Rows are float32.
        opset: ONNX operator set, 18 to 20.

    Raises:
        UsageError: another input type or opset.
    """

    input_type: InputType = "uint8"
    opset: int = 20

    def __post_init__(self) -> None:
        if self.input_type not in _TORCH_TYPES:
            raise UsageError(f"Input type {self.input_type!r} does not exist; choose uint8 or float32.")
        if not 18 <= self.opset <= 20:
            raise UsageError(f"Opset {self.opset} is not supported; choose 18, 19 or 20.")


@dataclass(frozen=True, kw_only=True)
class GraphReport:
    """Size of a graph that was written.

    Args:
        nodes: operators in the graph.
        size: of the file, bytes.
        opset: ONNX operator set.
        ir_version: of the ONNX format.
    """

    nodes: int
    size: int
    opset: int
    ir_version: int


def write_onnx(
    module: nn.Module,
    signature: ExportSignature,
    opset: int,
    metadata: Mapping[str, str],
    path: Path,
    translations: dict[Any, Any] | None = None,
) -> GraphReport:
    """Trace ``module`` with a symbolic batch axis and write one ONNX file.

    Args:
        module: input → outputs; in eval mode.
        signature: their names and shapes.
        opset: ONNX operator set.
        metadata: written into the file.
        path: of the file.
        translations: of custom operators, for the exporter.

    Raises:
        GraphError: tracing failed, or the graph is not valid, lacks a batch axis or uses a forbidden operator.
    """
    # Two rows: a batch axis of 1 is specialised away while tracing.
    example = torch.zeros(2, *signature.stored_shape, dtype=_TORCH_TYPES[signature.input_type])
    try:
        with _quietly():
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                input_names=[STORED_ROW if signature.vocabularies else signature.inputs[0].name],
                output_names=[output.name for output in signature.outputs],
                dynamic_shapes=({0: torch.export.Dim(BATCH)},),
                opset_version=opset,
                external_data=False,
                # Folding normalisation into a bfloat16 convolution would leave float32 weights behind.
                optimize=all(item.dtype != torch.bfloat16 for item in chain(module.parameters(), module.buffers())),
                custom_translation_table=translations,
                verbose=False,
            )
    except (torch.onnx.errors.OnnxExporterError, torch._dynamo.exc.TorchDynamoException) as error:
        raise GraphError(f"{type(module).__name__} cannot be traced: {_cause(error)}") from error
    assert program is not None
    model = program.model_proto
    _remove_notes(model.graph)
    if signature.vocabularies:
        take_categories(model, signature, BATCH)
    model.producer_name, model.producer_version = "mnexport", metadata.get("mn.version", "")
    onnx.helper.set_model_props(model, dict(metadata))
    check_graph(model)
    onnx.save(model, str(path))
    return describe(path)


def describe(path: Path) -> GraphReport:
    """Read the size of an ONNX file."""
    model = onnx.load(str(path))
    return GraphReport(
        nodes=len(model.graph.node),
        size=path.stat().st_size,
        opset=next(item.version for item in model.opset_import if item.domain == ""),
        ir_version=model.ir_version,
    )


def write_core(path: Path, signature: ExportSignature, core: Path) -> None:
    """Cut the part of an ONNX file that computes the outputs without explanation, and write it as a file.

    ONNX Runtime computes a graph whole, whichever outputs are asked for.

    Args:
        path: of the whole file.
        signature: of the whole file.
        core: the file to write.
    """
    names = [output.name for output in signature.without_explanation().outputs]
    whole = onnx.load(str(path))
    part = onnx.utils.Extractor(whole).extract_model([tensor.name for tensor in signature.inputs], names)
    part.producer_name, part.producer_version = whole.producer_name, whole.producer_version
    onnx.helper.set_model_props(part, {item.key: item.value for item in whole.metadata_props})
    check_graph(part)
    onnx.save(part, str(core))


def _cause(error: BaseException) -> str:
    """Describe the cause of an exporter's error in one line: its own message only names the step."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = _TERMINAL_CODES.sub("", str(error)).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0].strip().rstrip('.')}." if lines else f"{type(error).__name__}."
    if isinstance(error, GuardOnDataDependentSymNode):
        return f"{text} A static form must not branch on data."
    if "TensorWrapper" in text:  # what torch.func.grad computes with
        return f"{text} A static form must not take gradients."
    return text


def _remove_notes(graph: onnx.GraphProto) -> None:
    """Remove the exporter's stack traces: paths and source lines of this machine, which nothing reads."""
    for item in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                _remove_notes(inner)


def check_graph(model: onnx.ModelProto) -> None:
    """Refuse a model that is not valid, lacks a batch axis or uses a forbidden operator.

    Raises:
        GraphError: one of these.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise GraphError(f"The exported graph is not valid ONNX: {error}") from error
    problems = []
    for value in [*model.graph.input, *model.graph.output]:
        first = value.type.tensor_type.shape.dim[0]
        if first.dim_param != BATCH:
            problems.append(f"{value.name} has a first axis {first.dim_param or first.dim_value!r}, not {BATCH!r}")
    used = {node.op_type for node in model.graph.node} & _FORBIDDEN_OPERATORS
    if used:
        problems.append(f"it uses {', '.join(sorted(used))}, which crash ONNX Runtime on an empty batch")
    if problems:
        raise GraphError(f"The exported graph is not what it must be: {'; '.join(problems)}.")


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep messages of the exporter off the terminal; its errors are raised, not printed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

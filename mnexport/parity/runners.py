"""Runners: functions from stored examples to the named outputs of a model.

Shapes: images uint8 [N, channels, H, W] or rows float32 [N, F]; logits and probabilities [N, C] or values [N, T];
attention ω [N, S].
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mnexport.errors import GraphError
from mnexport.export_source import ExportSource
from mnexport.forms.regression import as_columns, unscaled
from mnexport.parity.tolerance import Answers
from mnexport.runtime import onnxruntime
from mnexport.signature import ExportSignature
from mntrain.artifact import TableArtifact
from mntrain.models.base import Estimate, Model, Prediction
from mntrain.models.neighbors import HasNeighbors

Examples = npt.NDArray[Any]
Runner = Callable[[Examples], Answers]
ATTENTION = "attention"
"""Name of the attention over all entries, which a trained model gives beside its outputs where neighbors are told."""


def trained_runner(source: ExportSource) -> Runner:
    """Run the trained model itself, in eval mode, through its own forward pass.

    Where the export explains its answers, the runner gives the answer without adaptation and the attention, too.
    """
    model, artifact = source.model, source.artifact

    def unscale(values: Tensor) -> Tensor:
        assert isinstance(artifact, TableArtifact)
        return as_columns(unscaled(values, artifact.config.standardization))

    @torch.inference_mode()
    def run(examples: Examples) -> Answers:
        inputs = artifact.preprocessing(torch.from_numpy(source.model_inputs(examples)))
        output = model(inputs)
        if isinstance(output, Estimate):
            answers = {"value": unscale(output.values)}
            if output.unadapted_values is not None:
                answers["unadapted_value"] = unscale(output.unadapted_values)
        else:
            assert isinstance(output, Prediction)
            answers = {"logits": output.logits, "probabilities": torch.softmax(output.logits, dim=-1)}
            if output.unadapted_logits is not None:
                answers["unadapted_probabilities"] = torch.softmax(output.unadapted_logits, dim=-1)
        if source.signature.explains:
            answers[ATTENTION] = _attention(model, inputs)
        return {name: tensor.numpy() for name, tensor in answers.items()}

    return run


def module_runner(module: nn.Module, signature: ExportSignature) -> Runner:
    """Run a static form in PyTorch."""
    names = [output.name for output in signature.outputs]

    @torch.inference_mode()
    def run(examples: Examples) -> Answers:
        outputs = module(torch.from_numpy(signature.as_input(examples)))
        return {name: tensor.numpy() for name, tensor in zip(names, outputs, strict=True)}

    return run


def form_runner(source: ExportSource, module: nn.Module) -> Runner:
    """Run a static form in PyTorch, on the features of the frozen network where there is one."""
    if source.graft is None:
        return module_runner(module, source.signature)
    names = [output.name for output in source.signature.outputs]

    @torch.inference_mode()
    def run(examples: Examples) -> Answers:
        outputs = module(torch.from_numpy(source.model_inputs(examples)))
        return {name: tensor.numpy() for name, tensor in zip(names, outputs, strict=True)}

    return run


def open_file(path: Path) -> Any:
    """Open an ONNX file with ONNX Runtime on the CPU.

    Raises:
        GraphError: ONNX Runtime does not load the file.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exception types share no public base class
        raise GraphError(f"ONNX Runtime does not load the exported file: {error}") from error


def onnxruntime_runner(path: Path, signature: ExportSignature) -> Runner:
    """Run an ONNX file with ONNX Runtime on the CPU.

    Raises:
        GraphError: ONNX Runtime does not load the file.
    """
    session = open_file(path)
    names = [output.name for output in signature.outputs]

    def run(examples: Examples) -> Answers:
        outputs = session.run(names, signature.feeds(examples))
        return {name: np.asarray(array) for name, array in zip(names, outputs, strict=True)}

    return run


def collect(runner: Runner, examples: Examples, batch: int) -> Answers:
    """Run all examples, ``batch`` at a time; all answers [N, …]."""
    parts = [runner(chunk) for chunk in _chunks(examples, batch)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _attention(model: Model, inputs: Tensor) -> Tensor:
    """ω [B, S] of a model that has neighbors to explain an answer with."""
    assert isinstance(model, HasNeighbors)
    return model.attention_over_all(model.queries(inputs))


def _chunks(examples: Examples, batch: int) -> Iterator[Examples]:
    for start in range(0, len(examples), batch):
        yield examples[start : start + batch]

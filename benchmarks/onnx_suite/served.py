"""Serve models with `mnserve serve` and default options, and send them their inputs through tritonclient."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from mnserve.bench.server_process import server_process
from mnserve.errors import MnServeError
from onnx_suite.arrays import Array, difference

Tensors = Sequence[triton.InferInput]

_TIMEOUT: Final = 60.0
_LONGEST: Final = 500
_STOPPED: Final = "the server ended while it "


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A model with its inputs and the outputs of ONNX Runtime alone.

    Attributes:
        name: folder of the model in a repository.
        model: the ONNX file.
        inputs: names and arrays of the inputs, once for each request.
        outputs: names of the outputs.
        answers: arrays of the outputs, once for each request.
    """

    name: str
    model: bytes
    inputs: Sequence[Mapping[str, Array]]
    outputs: Sequence[str]
    answers: Sequence[Sequence[Array]]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came of a model: "equal", "wrong" or "refused", with the reason of the last two."""

    outcome: str
    reason: str = ""


def write_repository(folder: Path, models: Sequence[Expected]) -> None:
    """Write the models as a repository without any config.pbtxt."""
    for model in models:
        version = folder / model.name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").write_bytes(model.model)


def serve(
    folder: Path, models: Sequence[Expected], words: Sequence[str], report: Callable[[str], None]
) -> dict[str, Finding]:
    """Serve models by one server process and compare all answers.

    A group that ends its server is served again in halves, so that a fatal model is found and costs no other.

    Args:
        folder: empty folder for repositories.
        models: the models.
        words: further words for `mnserve serve`.
        report: called with the name of each model that is done.
    """
    repository = folder / f"{models[0].name}-{len(models)}"
    write_repository(repository, models)
    found: dict[str, Finding] = {}
    try:
        with (
            server_process(repository, ["--log-level", "error", *words]) as address,
            triton.InferenceServerClient(address) as client,
        ):
            reasons = _load_failures(client)
            for model in models:
                found[model.name] = _ask(client, model, reasons)
                report(model.name)
                if found[model.name].reason.startswith(_STOPPED):
                    break
    except (MnServeError, InferenceServerException) as error:
        if len(models) == 1:
            return {models[0].name: Finding(outcome="refused", reason=f"{_STOPPED}loaded: {_shortened(error)}")}
        half = len(models) // 2
        return {**serve(folder, models[:half], words, report), **serve(folder, models[half:], words, report)}
    left = [model for model in models if model.name not in found]
    return {**found, **(serve(folder, left, words, report) if left else {})}


def _load_failures(client: triton.InferenceServerClient) -> dict[str, str]:
    index = client.get_model_repository_index()
    return {model.name: model.reason or model.state for model in index.models if model.state != "READY"}


def _ask(client: triton.InferenceServerClient, model: Expected, reasons: Mapping[str, str]) -> Finding:
    if model.name in reasons:
        return Finding(outcome="refused", reason=_shortened(reasons[model.name]))
    for inputs, answers in zip(model.inputs, model.answers, strict=True):
        try:
            found = infer(client, model.name, inputs, model.outputs)
        except InferenceServerException as error:
            reason = _shortened(error.message())
            if not _is_live(client):
                reason = f"{_STOPPED}ran the model: {reason}"
            return Finding(outcome="refused", reason=reason)
        different = difference(found, answers)
        if different is not None:
            return Finding(outcome="wrong", reason=different)
    return Finding(outcome="equal")


def infer(
    client: triton.InferenceServerClient, name: str, inputs: Mapping[str, Array], outputs: Sequence[str]
) -> list[Array]:
    """Send one request and return the arrays of the outputs.

    Raises:
        InferenceServerException: the server refuses it, or an output is missing.
    """
    return output_arrays(client.infer(name, as_tensors(inputs), client_timeout=_TIMEOUT), outputs)


def as_tensors(inputs: Mapping[str, Array]) -> Tensors:
    """Make the inputs of a request."""
    tensors = []
    for name, array in inputs.items():
        tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    return tensors


def output_arrays(answer: triton.InferResult, outputs: Sequence[str]) -> list[Array]:
    """Take the arrays out of an answer.

    Raises:
        InferenceServerException: an output is missing.
    """
    arrays = [answer.as_numpy(output) for output in outputs]
    missing = [output for output, array in zip(outputs, arrays, strict=True) if array is None]
    if missing:
        raise InferenceServerException(f"the answer has no output {', '.join(missing)}")
    return arrays


def _is_live(client: triton.InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_live(client_timeout=_TIMEOUT))
    except InferenceServerException:
        return False


def _shortened(error: object) -> str:
    return re.sub(r"\s+", " ", str(error))[:_LONGEST]


def can_be_sent(value: Any) -> bool:
    """Tell whether the protocol has a type for a value."""
    return isinstance(value, np.ndarray) and np_to_triton_dtype(value.dtype) is not None

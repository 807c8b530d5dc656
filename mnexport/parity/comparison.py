"""Does the export answer as the trained model does? A stage of every export, on real held-out examples.

Shapes: images uint8 [N, channels, H, W] or rows float32 [N, F]; logits and probabilities [N, C] or values [N, 1].

Compared at batch 1, 2 and a large one: the static form (PyTorch) with the trained model, and the ONNX file (ONNX
Runtime, CPU) with the trained model too, or with the static form where that approximates. Every failure is collected
before anything is raised.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import Tensor, nn

from mnexport.errors import GraphError, ParityError
from mnexport.parity.tolerance import Allowance, Answers
from mnexport.signature import ExportSignature
from mntrain.models.base import Estimate, Model, Prediction
from mntrain.models.neighbors import HasNeighbors

Examples = npt.NDArray[Any]
Runner = Callable[[Examples], Answers]
# Beside the outputs, where neighbors are told: the attention over all entries.
_ATTENTION = "attention"
# Follow from which entries are named; where weights are equal, either may be.
_OF_NEIGHBORS = frozenset({"neighbor_indices", "neighbor_labels", "neighbor_values"})
# Small batches are checked on this many examples; the large batch runs over all of them.
_SMALL_BATCH_EXAMPLES = 64


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One export against what it must equal, at one batch size.

    Args:
        what: static form or onnxruntime.
        reference: what it was compared with: the trained model, or the static form where that is an approximation.
        tolerance: how far they may be apart.
        batch: rows at a time.
        examples: compared.
        max_error: largest absolute difference of each output.
        argmax_differences: examples with another predicted class than is allowed.
        beyond_tolerance: values that differ by more than the tolerance, or are not finite.
    """

    what: str
    reference: str
    tolerance: str
    batch: int
    examples: int
    max_error: dict[str, float]
    argmax_differences: int
    beyond_tolerance: int

    @property
    def passed(self) -> bool:
        """Whether the export may be published."""
        return self.beyond_tolerance == 0 and self.argmax_differences == 0

    @property
    def failure(self) -> str:
        """What did not agree, in words."""
        errors = ", ".join(
            f"{name} {value:.3g}" if math.isfinite(value) else f"{name} not finite"
            for name, value in self.max_error.items()
        )
        return (
            f"{self.what} at batch {self.batch}: {self.beyond_tolerance} values beyond {self.tolerance} of the "
            f"{self.reference} (largest errors: {errors}), {self.argmax_differences} of {self.examples} examples with "
            "another class"
        )


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """All comparisons of an export.

    Args:
        source: which examples were used.
        comparisons: one for each engine and batch size.
    """

    source: str
    comparisons: tuple[Comparison, ...]

    @property
    def failed(self) -> tuple[Comparison, ...]:
        """What did not agree."""
        return tuple(item for item in self.comparisons if not item.passed)

    @property
    def passed(self) -> bool:
        """Whether everything agreed."""
        return not self.failed

    def raise_failures(self) -> None:
        """Raise one error that names every failed comparison.

        Raises:
            ParityError: there is one.
        """
        if self.failed:
            lines = "; ".join(item.failure for item in self.failed)
            finite = all(math.isfinite(value) for item in self.failed for value in item.max_error.values())
            remedy = (
                "a looser --atol (or --tolerance, for a form that approximates) publishes it knowingly"
                if finite
                else "no tolerance allows answers that are not finite: take another --form, or train again"
            )
            raise ParityError(
                f"The export does not answer as the trained model does: {lines}. Nothing was published; {remedy}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``export.json``."""
        return {
            "source": self.source,
            "comparisons": [asdict(item) for item in self.comparisons],
        }


def trained_runner(
    model: Model, preprocessing: nn.Module, unscale: Callable[[Tensor], Tensor], *, explain: bool = False
) -> Runner:
    """The trained model itself, in eval mode, through its own forward pass.

    Args:
        unscale: values as the model estimates them → the target's own units.
        explain: whether the answer without adaptation and the attention over all entries are given, too.
    """

    @torch.inference_mode()
    def run(examples: Examples) -> Answers:
        inputs = preprocessing(torch.from_numpy(examples))
        found = model(inputs)
        if isinstance(found, Estimate):
            answers = {"value": unscale(found.values).unsqueeze(-1)}
            if found.unadapted_values is not None:
                answers["unadapted_value"] = unscale(found.unadapted_values).unsqueeze(-1)
        else:
            assert isinstance(found, Prediction)
            answers = {"logits": found.logits, "probabilities": torch.softmax(found.logits, dim=-1)}
            if found.unadapted_logits is not None:
                answers["unadapted_probabilities"] = torch.softmax(found.unadapted_logits, dim=-1)
        if explain:
            answers[_ATTENTION] = _attention(model, inputs)
        return {name: tensor.numpy() for name, tensor in answers.items()}

    return run


def module_runner(module: nn.Module, signature: ExportSignature) -> Runner:
    """A static form in PyTorch."""
    names = [output.name for output in signature.outputs]

    @torch.inference_mode()
    def run(examples: Examples) -> Answers:
        found = module(torch.from_numpy(signature.as_input(examples)))
        return {name: tensor.numpy() for name, tensor in zip(names, found, strict=True)}

    return run


def onnxruntime_runner(path: Path, signature: ExportSignature) -> Runner:
    """The ONNX file, on the CPU.

    Raises:
        GraphError: ONNX Runtime does not load the file.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exception types share no public base class
        raise GraphError(f"ONNX Runtime does not load the exported file: {error}") from error
    names = [output.name for output in signature.outputs]

    def run(examples: Examples) -> Answers:
        found = session.run(names, {signature.input.name: signature.as_input(examples)})
        return {name: np.asarray(array) for name, array in zip(names, found, strict=True)}

    return run


@dataclass(frozen=True, kw_only=True, eq=False)
class ParityCheck:
    """Something that must answer as something else does.

    Args:
        what: name of what is checked.
        runner: its answers.
        reference: name of what is right.
        expected: the right answers.
        tolerance: how far they may be apart.
    """

    what: str
    runner: Runner
    reference: str
    expected: Runner
    tolerance: Allowance


def compare(
    checks: Sequence[ParityCheck],
    examples: Examples,
    *,
    large_batch: int,
    source: str,
    advance: Callable[[str], None] = lambda message: None,
) -> ParityReport:
    """Run every check over the examples at every batch size.

    Args:
        checks: what must equal what.
        examples: [N, …], real and held out.
        large_batch: rows of the large batch, which runs over all examples.
        source: what the examples are, for the report.
        advance: told about each comparison before it starts.
    """
    references: dict[Runner, Answers] = {}
    found = []
    for check in checks:
        if check.expected not in references:
            references[check.expected] = collect(check.expected, examples, large_batch)
        expected = references[check.expected]
        for batch in sorted({1, 2, large_batch}):
            part = examples if batch == large_batch else examples[:_SMALL_BATCH_EXAMPLES]
            advance(f"{check.what}, batch {batch}, {len(part)} examples")
            got = collect(check.runner, part, batch)
            found.append(
                _compare_one(check, batch, got, {name: right[: len(part)] for name, right in expected.items()})
            )
    return ParityReport(source=source, comparisons=tuple(found))


def _attention(model: Model, inputs: Tensor) -> Tensor:
    """ω [B, S] of a model that has neighbors to explain an answer with."""
    assert isinstance(model, HasNeighbors)
    return model.attention_over_all(model.queries(inputs))


def _neighbor_error(got: Answers, expected: Answers) -> dict[str, npt.NDArray[Any]]:
    """How far the weights that were told are from those of the entries named, and those from the largest there are.

    Entries are not compared by number: equal weights have no order.
    """
    if "neighbor_indices" not in got or _ATTENTION not in expected:
        return {}
    attention, told = expected[_ATTENTION].astype(np.float64), got["neighbor_weights"]
    named = np.take_along_axis(attention, got["neighbor_indices"], axis=1)
    largest = -np.sort(-attention, axis=1)[:, : told.shape[1]]
    return {"neighbor_weights": np.maximum(np.abs(told - named), np.abs(named - largest))}


def _compare_one(check: ParityCheck, batch: int, got: Answers, expected: Answers) -> Comparison:
    compared = (got.keys() & expected.keys()) - _OF_NEIGHBORS
    error = {name: np.abs(got[name].astype(np.float64) - expected[name]) for name in got if name in compared}
    error |= _neighbor_error(got, expected)
    return Comparison(
        what=check.what,
        reference=check.reference,
        tolerance=str(check.tolerance),
        batch=batch,
        examples=len(next(iter(got.values()))),
        max_error={name: float(values.max()) for name, values in error.items()},
        argmax_differences=check.tolerance.other_classes(got, expected),
        beyond_tolerance=check.tolerance.beyond(error, expected),
    )


def collect(runner: Runner, examples: Examples, batch: int) -> Answers:
    """All answers [N, …], ``batch`` examples at a time."""
    parts = [runner(chunk) for chunk in _chunks(examples, batch)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _chunks(examples: Examples, batch: int) -> Iterator[Examples]:
    for start in range(0, len(examples), batch):
        yield examples[start : start + batch]

"""Does the export answer as the trained model does? A stage of every export, on real held-out images.

Shapes: images uint8 [N, channels, H, W], logits and probabilities [N, C].

Compared at batch 1, 2 and a large one: the static form (PyTorch) with the trained model, and the ONNX file (ONNX
Runtime, CPU) with the trained model too, or with the static form where that approximates. Every failure is collected
before anything is raised.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import nn

from mnexport.errors import GraphError, ParityError
from mnexport.graph import INPUT, OUTPUTS, InputType
from mnexport.tolerance import Allowance, Outputs
from mntrain.data.preprocessing import Preprocessing
from mntrain.models.base import Model

Array = npt.NDArray[np.float32]
Images = npt.NDArray[np.uint8]

Runner = Callable[[Images], tuple[Array, Array]]
# Small batches are checked on this many images; the large batch runs over all of them.
_SMALL_BATCH_IMAGES = 64


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One export against what it must equal, at one batch size.

    Args:
        what: static form or onnxruntime.
        reference: what it was compared with: the trained model, or the static form where that is an approximation.
        tolerance: how far they may be apart.
        batch: rows at a time.
        images: compared.
        max_logit_error: largest absolute difference of a logit.
        max_probability_error: largest absolute difference of a probability.
        argmax_differences: images with another predicted class than is allowed.
        beyond_tolerance: values that differ by more than the tolerance, or are not finite.
    """

    what: str
    reference: str
    tolerance: str
    batch: int
    images: int
    max_logit_error: float
    max_probability_error: float
    argmax_differences: int
    beyond_tolerance: int

    @property
    def passed(self) -> bool:
        """Whether the export may be published."""
        return self.beyond_tolerance == 0 and self.argmax_differences == 0


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """All comparisons of an export.

    Args:
        source: which images were used.
        comparisons: one for each engine and batch size.
    """

    source: str
    comparisons: tuple[Comparison, ...]

    def raise_failures(self) -> None:
        """Raise one error that names every failed comparison.

        Raises:
            ParityError: there is one.
        """
        failed = [item for item in self.comparisons if not item.passed]
        if failed:
            lines = "; ".join(
                f"{item.what} at batch {item.batch}: {item.beyond_tolerance} values beyond {item.tolerance} of the "
                f"{item.reference} (largest error of a logit {item.max_logit_error:.3g}, of a probability "
                f"{item.max_probability_error:.3g}), "
                f"{item.argmax_differences} of {item.images} images with another class"
                for item in failed
            )
            raise ParityError(
                f"The export does not answer as the trained model does: {lines}. Nothing was published; a looser "
                "--atol (or --tolerance, for a form that approximates) publishes it knowingly."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``export.json``."""
        return {
            "source": self.source,
            "comparisons": [asdict(item) for item in self.comparisons],
        }


def trained_runner(model: Model, preprocessing: Preprocessing) -> Runner:
    """The trained model itself, in eval mode, through its own forward pass."""

    @torch.inference_mode()
    def run(images: Images) -> tuple[Array, Array]:
        logits = model(preprocessing(torch.from_numpy(images))).logits
        return logits.numpy(), torch.softmax(logits, dim=-1).numpy()

    return run


def module_runner(module: nn.Module, input_type: InputType) -> Runner:
    """A static form in PyTorch."""

    @torch.inference_mode()
    def run(images: Images) -> tuple[Array, Array]:
        logits, probabilities = module(torch.from_numpy(_as_input(images, input_type)))
        return logits.numpy(), probabilities.numpy()

    return run


def onnxruntime_runner(path: Path, input_type: InputType) -> Runner:
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

    def run(images: Images) -> tuple[Array, Array]:
        logits, probabilities = session.run(list(OUTPUTS), {INPUT: _as_input(images, input_type)})
        return np.asarray(logits), np.asarray(probabilities)

    return run


@dataclass(frozen=True, kw_only=True, eq=False)
class Check:
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
    checks: Sequence[Check],
    images: Images,
    *,
    large_batch: int,
    source: str,
    advance: Callable[[str], None] = lambda message: None,
) -> ParityReport:
    """Run every check over the images at every batch size.

    Args:
        checks: what must equal what.
        images: uint8 [N, channels, H, W], real and held out.
        large_batch: rows of the large batch, which runs over all images.
        source: what the images are, for the report.
        advance: told about each comparison before it starts.
    """
    references: dict[Runner, Outputs] = {}
    found = []
    for check in checks:
        if check.expected not in references:
            references[check.expected] = _collect(check.expected, images, large_batch)
        expected = references[check.expected]
        for batch in sorted({1, 2, large_batch}):
            part = images if batch == large_batch else images[:_SMALL_BATCH_IMAGES]
            advance(f"{check.what}, batch {batch}, {len(part)} images")
            got = _collect(check.runner, part, batch)
            found.append(_compare_one(check, batch, got, Outputs(*(item[: len(part)] for item in expected))))
    return ParityReport(source=source, comparisons=tuple(found))


def _compare_one(check: Check, batch: int, got: Outputs, expected: Outputs) -> Comparison:
    error = Outputs(*(np.abs(mine.astype(np.float64) - right) for mine, right in zip(got, expected, strict=True)))
    return Comparison(
        what=check.what,
        reference=check.reference,
        tolerance=str(check.tolerance),
        batch=batch,
        images=len(error.logits),
        max_logit_error=float(error.logits.max()),
        max_probability_error=float(error.probabilities.max()),
        argmax_differences=check.tolerance.other_classes(got, expected),
        beyond_tolerance=check.tolerance.beyond(error, expected),
    )


def _collect(runner: Runner, images: Images, batch: int) -> Outputs:
    parts = [runner(chunk) for chunk in _chunks(images, batch)]
    return Outputs(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))


def _chunks(images: Images, batch: int) -> Iterator[Images]:
    for start in range(0, len(images), batch):
        yield images[start : start + batch]


def _as_input(images: Images, input_type: InputType) -> npt.NDArray[Any]:
    return images if input_type == "uint8" else images.astype(np.float32) / np.float32(255)

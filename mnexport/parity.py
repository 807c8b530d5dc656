"""Does the export answer as the trained model does? A stage of every export, on real held-out images.

Shapes: images uint8 [N, channels, H, W], logits and probabilities [N, C].

Compared with the trained model: the static form (PyTorch) and the ONNX file (ONNX Runtime, CPU), at batch 1, 2 and a
large one. Every failure is collected before anything is raised.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import nn

from mnexport.errors import GraphError, ParityError, UsageError
from mnexport.graph import INPUT, OUTPUTS, InputType
from mntrain.data.preprocessing import Preprocessing
from mntrain.models.base import Model

Array = npt.NDArray[np.float32]
Images = npt.NDArray[np.uint8]
Runner = Callable[[Images], tuple[Array, Array]]
# Small batches are checked on this many images; the large batch runs over all of them.
_SMALL_BATCH_IMAGES = 64
# Of a float32 softmax, whatever tolerance the logits have.
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """|export − trained| ≤ atol + rtol·|trained| on every logit.

    A probability may be off by as much as the logits of its row: softmax amplifies no difference.

    Args:
        atol: absolute.
        rtol: relative; 0 by default, so that nothing is hidden in it.

    Raises:
        UsageError: one is negative or not finite, or both are 0.
    """

    atol: float = 1e-4
    rtol: float = 0.0

    def __post_init__(self) -> None:
        given = (self.atol, self.rtol)
        if not (all(math.isfinite(value) and value >= 0 for value in given) and any(given)):
            raise UsageError(
                f"Tolerances are atol {self.atol} and rtol {self.rtol}; both must be finite and not negative, and one "
                "of them above 0 (atol 1e-4 is usual)."
            )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One export against the trained model at one batch size.

    Args:
        what: static form or onnxruntime.
        batch: rows at a time.
        images: compared.
        max_logit_error: largest absolute difference of a logit.
        max_probability_error: largest absolute difference of a probability.
        argmax_differences: images with another predicted class.
        beyond_tolerance: logits and probabilities that differ by more than the tolerance (or are not finite).
    """

    what: str
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
        tolerance: that was asked for.
        comparisons: one for each engine and batch size.
    """

    source: str
    tolerance: Tolerance
    comparisons: tuple[Comparison, ...]

    def raise_failures(self) -> None:
        """Raise one error that names every failed comparison.

        Raises:
            ParityError: there is one.
        """
        failed = [item for item in self.comparisons if not item.passed]
        if failed:
            lines = "; ".join(
                f"{item.what} at batch {item.batch}: {item.beyond_tolerance} values beyond tolerance (largest error of "
                f"a logit {item.max_logit_error:.3g}, of a probability {item.max_probability_error:.3g}), "
                f"{item.argmax_differences} of {item.images} images with another class"
                for item in failed
            )
            raise ParityError(
                f"The export does not answer as the trained model does (atol {self.tolerance.atol:g}, rtol "
                f"{self.tolerance.rtol:g}): {lines}. Nothing was published; a looser --atol publishes it knowingly."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``export.json``."""
        return {
            "source": self.source,
            "atol": self.tolerance.atol,
            "rtol": self.tolerance.rtol,
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


def compare(
    reference: Runner,
    candidates: dict[str, Runner],
    images: Images,
    tolerance: Tolerance,
    *,
    large_batch: int,
    source: str,
    advance: Callable[[str], None] = lambda message: None,
) -> ParityReport:
    """Run every candidate over the images at every batch size and compare it with the reference.

    Args:
        reference: what is right.
        candidates: name → runner.
        images: uint8 [N, channels, H, W], real and held out.
        large_batch: rows of the large batch, which runs over all images.
        source: what the images are, for the report.
        advance: told about each comparison before it starts.
    """
    expected = _collect(reference, images, large_batch)
    found = []
    for what, runner in candidates.items():
        for batch in sorted({1, 2, large_batch}):
            part = images if batch == large_batch else images[:_SMALL_BATCH_IMAGES]
            advance(f"{what}, batch {batch}, {len(part)} images")
            logits, probabilities = _collect(runner, part, batch)
            found.append(
                _compare_one(what, batch, (logits, probabilities), tuple(a[: len(part)] for a in expected), tolerance)
            )
    return ParityReport(source=source, tolerance=tolerance, comparisons=tuple(found))


def _compare_one(
    what: str, batch: int, got: tuple[Array, Array], expected: tuple[Array, ...], tolerance: Tolerance
) -> Comparison:
    error = np.abs(got[0].astype(np.float64) - expected[0])
    allowed = tolerance.atol + tolerance.rtol * np.abs(expected[0])
    probability_error = np.abs(got[1].astype(np.float64) - expected[1])
    allowed_probability = allowed.max(axis=1, keepdims=True) + _ROUNDING
    # Written so that a NaN counts as a failure.
    beyond = int(np.sum(~(error <= allowed)) + np.sum(~(probability_error <= allowed_probability)))
    return Comparison(
        what=what,
        batch=batch,
        images=len(error),
        max_logit_error=float(error.max()),
        max_probability_error=float(probability_error.max()),
        argmax_differences=int(np.sum(got[0].argmax(axis=1) != expected[0].argmax(axis=1))),
        beyond_tolerance=beyond,
    )


def _collect(runner: Runner, images: Images, batch: int) -> tuple[Array, Array]:
    parts = [runner(chunk) for chunk in _chunks(images, batch)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _chunks(images: Images, batch: int) -> Iterator[Images]:
    for start in range(0, len(images), batch):
        yield images[start : start + batch]


def _as_input(images: Images, input_type: InputType) -> npt.NDArray[Any]:
    return images if input_type == "uint8" else images.astype(np.float32) / np.float32(255)

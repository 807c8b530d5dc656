"""Options of an export."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from mnexport.calibration import CalibrationImages
from mnexport.errors import UsageError
from mnexport.forms.plan import FormPlan
from mnexport.graph import GraphOptions
from mnexport.parity.examples import ParityImages
from mnexport.parity.tolerance import Tolerance
from mnexport.precision.accuracy import Precision
from mnexport.repository.target import Target
from mnexport.tensorrt import TensorRTOptions

USUAL_ROWS = 64
"""Rows in a server batch, where nothing else is said."""
FEW_SHOT_ROWS = 1024
"""Support images and images to classify of one request, where nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Artifact to export, place to publish it, and how it is exported.

    Args:
        artifact: folder that ``mntrain fit`` wrote.
        target: where the model goes.
        form: auto, explicit, factored or low_rank.
        approximation_tolerance: largest error of a probability that an approximated form may have.
        rank: directions of an approximated form; None takes the fewest within the tolerance.
        calibration: samples fits an approximation to the held-out images inside the artifact; train to images of the
            training split, judged on the validation split.
        vanilla: export the same backbone and head without adaptation.
        few_shot: export the backbone as a classifier of classes that requests bring with them.
        explain: neighbors whose share in an answer is told on request; 0 tells none.
        graph: input type and opset.
        precision: of the backbone.
        engine: a TensorRT engine to build beside the ONNX file, or None.
        parity_tolerance: of logits or values in the parity check.
        parity_images: samples uses the held-out images inside the artifact; test the whole test split.
        data_path: where the data lies now, for ``test`` and ``train``.
        backbone: where the frozen network of a head on features lies now; None is where it lay.
        max_batch_size: rows the server may put into one batch; with ``few_shot`` support images and images to classify
            of one request together. None takes what is usual, 64 and 1,024.

    Raises:
        UsageError: a value or a combination of values that cannot be.
    """

    artifact: Path
    target: Target
    form: str = "auto"
    approximation_tolerance: float = 1e-3
    rank: int | None = None
    calibration: CalibrationImages = "samples"
    vanilla: bool = False
    few_shot: bool = False
    explain: int = 0
    graph: GraphOptions = field(default_factory=GraphOptions)
    precision: Precision = field(default_factory=Precision)
    engine: TensorRTOptions | None = None
    parity_tolerance: Tolerance = field(default_factory=Tolerance)
    parity_images: ParityImages = "samples"
    data_path: str | Path | None = None
    backbone: Path | None = None
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "artifact", Path(self.artifact))  # callers who check no types give a text, too
        for option, value, choices in (
            ("--calibration", self.calibration, get_args(CalibrationImages)),
            ("--parity", self.parity_images, get_args(ParityImages)),
        ):
            if value not in choices:
                raise UsageError(f"{option} {value!r} does not exist; choose from {', '.join(choices)}.")
        FormPlan(form=self.form, tolerance=self.approximation_tolerance, rank=self.rank)
        if self.explain < 0:
            raise UsageError(f"--explain is {self.explain}; give the number of neighbors to tell, or 0 for none.")
        if self.vanilla and self.explain:
            raise UsageError("--vanilla exports no adaptation, so there is nothing to --explain; leave one out.")
        if self.vanilla and self.rank is not None:
            raise UsageError("--vanilla exports no adaptation, so there is nothing to --rank; leave one out.")
        if self.vanilla and self.form != "auto":
            raise UsageError(f"--vanilla exports no adaptation, so --form {self.form} has no meaning; leave one out.")
        self._check_few_shot()
        if self.calibration == "train" and not self.calibrates:
            raise UsageError(
                "--calibration train is for an approximated form (--form auto or low_rank) and for --dtype int8; leave "
                "it out."
            )
        if self.engine is not None and self.engine.profile.minimum > 1:
            raise UsageError(
                f"--batch-profile begins at {self.engine.profile.minimum}, but a server sends batches from 1; begin it "
                "at 1."
            )
        least = 2 if self.few_shot else 1
        if not least <= self.batch_rows <= 65536:
            what = ", a support image and an image to classify at least" if self.few_shot else ""
            raise UsageError(f"--max-batch-size is {self.batch_rows}; it must be from {least} to 65536{what}.")
        if self.engine is not None and self.engine.profile.maximum < self.batch_rows:
            raise UsageError(
                f"--batch-profile ends at {self.engine.profile.maximum}, but a server may send batches of "
                f"--max-batch-size {self.batch_rows}; raise one or lower the other."
            )
        if self.data_path is not None and (self.parity_images, self.calibration) == ("samples", "samples"):
            raise UsageError(
                "--data-path is only read with --parity test or --calibration train; add one, or leave the path out."
            )

    def _check_few_shot(self) -> None:
        """Refuse options that have no meaning for a few-shot classifier."""
        given = {
            "--form": self.form != "auto",
            "--rank": self.rank is not None,
            "--vanilla": self.vanilla,
            "--explain": self.explain > 0,
            "--dtype": self.precision.dtype != "float32",
            "--format": self.engine is not None,
            "--calibration": self.calibration != "samples",
        }
        if self.few_shot and any(given.values()):
            option = next(name for name, is_given in given.items() if is_given)
            raise UsageError(
                f"--few-shot exports features and nearest means in float32, on which {option} does not act; leave one "
                "out."
            )

    @property
    def batch_rows(self) -> int:
        """Rows of ``max_batch_size``, or the usual number."""
        usual = FEW_SHOT_ROWS if self.few_shot else USUAL_ROWS
        return usual if self.max_batch_size is None else self.max_batch_size

    @property
    def calibrates(self) -> bool:
        """Tell if a form or a precision is fitted to calibration examples."""
        return (self.form in ("auto", "low_rank") and not self.vanilla) or self.precision.dtype == "int8"

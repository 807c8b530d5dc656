"""What an export has to equal, and the examples it is checked on.

Shapes: examples are images uint8 [N, channels, H, W] or rows float32 [N, F].
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mnexport.calibration import noun
from mnexport.forms.plan import StaticModel
from mnexport.forms.regression import unscaled
from mnexport.options import ExportOptions
from mnexport.parity.comparison import (
    ParityCheck,
    ParityReport,
    Runner,
    compare,
    module_runner,
    onnxruntime_runner,
    trained_runner,
)
from mnexport.parity.tolerance import Allowance, Approximation
from mnexport.repository.layout import CPU_NAME, MODEL_NAME
from mnexport.signature import ExportSignature
from mntrain.artifact import ImageArtifact, TableArtifact
from mntrain.data.images import ImageSet
from mntrain.data.tables import TableSet
from mntrain.models.base import Model
from mntrain.training.artifact_data import load_split


class CheckedExamples(NamedTuple):
    """Examples, and what they are."""

    examples: ImageSet | TableSet
    source: str


def of_file(name: str) -> str:
    """What the check of an ONNX file is called."""
    return "onnxruntime" if name == MODEL_NAME else f"onnxruntime, {name}"


def parity_checks(
    model: Model,
    static: StaticModel,
    files: dict[str, tuple[Path, ExportSignature]],
    options: ExportOptions,
    artifact: ImageArtifact | TableArtifact,
) -> tuple[ParityCheck, ...]:
    """An exact form and its file answer as the trained model; an approximation comes near it, its file equals it."""
    unit, unscale = 1.0, lambda values: values
    if isinstance(artifact, TableArtifact) and artifact.config.labels is None:
        unit = artifact.config.standardization.target_std
        unscale = partial(unscaled, standardization=artifact.preprocessing)
    whole = files[MODEL_NAME][1]
    trained = trained_runner(model, artifact.preprocessing, unscale, explain=bool(options.explain))
    form = module_runner(static.module, whole)
    tolerance = replace(options.tolerance, unit=unit)
    near: Allowance = tolerance
    right = ("trained model", trained)
    if static.approximate:
        near, right = Approximation(limit=options.approximation, unit=unit), ("static form", form)
    # Its keys are rounded: an approximation of its own.
    rounded = files.get(CPU_NAME)
    of_cpu = () if rounded is None else (_rounded_check(*rounded, trained, near),)
    return (
        ParityCheck(what="static form", runner=form, reference="trained model", expected=trained, tolerance=near),
        *(
            ParityCheck(
                what=of_file(name),
                runner=onnxruntime_runner(path, signature),
                reference=right[0],
                expected=right[1],
                tolerance=tolerance,
            )
            for name, (path, signature) in files.items()
            if name != CPU_NAME
        ),
        *of_cpu,
    )


def _rounded_check(path: Path, signature: ExportSignature, trained: Runner, near: Allowance) -> ParityCheck:
    return ParityCheck(
        what=of_file(path.name),
        runner=onnxruntime_runner(path, signature),
        reference="trained model",
        expected=trained,
        tolerance=near,
    )


def run_checks(
    checks: tuple[ParityCheck, ...],
    examples: CheckedExamples,
    options: ExportOptions,
    on_progress: Callable[[str], None],
) -> ParityReport:
    """All checks on all examples; nothing is raised."""
    return compare(
        checks,
        examples.examples.inputs,
        large_batch=options.max_batch_size,
        source=examples.source,
        advance=lambda message: on_progress(f"checking parity: {message}"),
    )


def parity_examples(
    options: ExportOptions, artifact: ImageArtifact | TableArtifact, on_progress: Callable[[str], None]
) -> CheckedExamples:
    """The held-out examples inside the artifact, or the whole test split."""
    if options.parity_images == "samples":
        return CheckedExamples(artifact.samples, f"{len(artifact.samples)} held-out {noun(artifact)} of the artifact")
    on_progress("loading the test split")
    test = load_split(artifact.config, "test", options.data_path)
    return CheckedExamples(test, f"test split, {len(test)} {noun(artifact)}")

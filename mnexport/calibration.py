"""The real examples that an approximation is fitted to and judged by."""

from collections.abc import Callable

from mnexport.forms.plan import Calibration
from mnexport.options import ExportOptions
from mntrain.artifact import ImageArtifact, TableArtifact
from mntrain.training.artifact_data import load_data

_MOST = 1024


def calibration_examples(
    options: ExportOptions, artifact: ImageArtifact | TableArtifact, on_progress: Callable[[str], None]
) -> Calibration | None:
    """Examples for an approximation or for int8; None where neither is possible, or there are too few.

    Raises:
        MnTrainError: the training data cannot be read, or is not the artifact's.
    """
    if not options.calibrates:
        return None
    if options.calibration == "samples":
        examples = artifact.samples.inputs
        return Calibration.halves(examples, f"{len(examples)} held-out {noun(artifact)} of the artifact")
    on_progress("loading the training and validation splits")
    data = load_data(artifact.config, options.data_path)
    return Calibration(
        fitted=data.part("train").inputs[:_MOST],
        held_out=data.part("validation").inputs[:_MOST],
        source="training split, judged on the validation split",
    )


def noun(artifact: ImageArtifact | TableArtifact) -> str:
    """What the artifact's examples are called."""
    return "images" if isinstance(artifact, ImageArtifact) else "rows"

"""The real images that an approximation is fitted to and judged by."""

from collections.abc import Callable

from mnexport.forms.plan import Calibration
from mnexport.options import ExportOptions
from mntrain.artifact import ImageArtifact
from mntrain.data.images import ImageSet
from mntrain.training.held_out import load_data

_MOST = 1024


def calibration_images(
    options: ExportOptions, artifact: ImageArtifact, tell: Callable[[str], None]
) -> Calibration | None:
    """Images for an approximation; None where none is possible: an exact form was asked for, or there are too few.

    Raises:
        MnTrainError: the training data cannot be read, or is not the artifact's.
    """
    if options.form not in ("auto", "low_rank") or options.vanilla:
        return None
    if options.calibration == "samples":
        images = artifact.samples.images
        return Calibration.halves(images, f"{len(images)} held-out images of the artifact")
    tell("loading the training and validation splits")
    data = load_data(artifact.config, options.data_path)
    fitted, held_out = data.part("train"), data.part("validation")
    assert isinstance(fitted, ImageSet)
    assert isinstance(held_out, ImageSet)
    return Calibration(
        fitted=fitted.images[:_MOST],
        held_out=held_out.images[:_MOST],
        source="training split, judged on the validation split",
    )

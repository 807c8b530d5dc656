"""Calibration examples: real data that an approximation or int8 is fitted to, and other data that judges it."""

from pathlib import Path
from typing import Literal

from mnexport.errors import UsageError
from mnexport.export_source import example_noun
from mnexport.forms.plan import Calibration
from mnexport.graft.network import GraftedNetwork
from mnexport.progress import OnProgress
from mntrain.artifact import ImageArtifact, TableArtifact
from mntrain.training.artifact_data import load_data

CalibrationImages = Literal["samples", "train"]
# Examples of a split; more of them would change ranges and directions little.
_MAX_EXAMPLES = 1024


def check_calibration(graft: GraftedNetwork | None, images: CalibrationImages, dtype: str) -> None:
    """Refuse training images that are not at hand.

    Args:
        graft: frozen network in front of a head on its features, of whose training split there are no images.
        images: samples or train.
        dtype: of the backbone.

    Raises:
        UsageError: int8 is to be fitted to them.
    """
    if graft is not None and images == "train" and dtype == "int8":
        raise UsageError(
            "--calibration train has the features of the training split, and --dtype int8 needs images, of which a "
            f"head has the {len(graft.samples)} of its artifact; leave --calibration out."
        )


def calibration_examples(
    artifact: ImageArtifact | TableArtifact,
    images: CalibrationImages,
    data_path: str | Path | None,
    on_progress: OnProgress,
) -> Calibration | None:
    """Take calibration examples from the artifact, or from the training and validation splits.

    Args:
        artifact: trained.
        images: samples or train.
        data_path: where the data lies now, for ``train``; None is where it lay in training.
        on_progress: gets a line before the data is loaded.

    Returns:
        The examples; None where the artifact holds too few.

    Raises:
        MnTrainError: the training data cannot be read, or is not the artifact's.
    """
    if images == "samples":
        examples = artifact.samples.inputs
        origin = f"{len(examples)} {artifact.config.samples_are} {example_noun(artifact)} of the artifact"
        return Calibration.halves(examples, origin)
    on_progress("loading the training and validation splits")
    data = load_data(artifact.config, data_path)
    return Calibration(
        fitted=data.part("train").inputs[:_MAX_EXAMPLES],
        held_out=data.part("validation").inputs[:_MAX_EXAMPLES],
        source="training split, judged on the validation split",
    )

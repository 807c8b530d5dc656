"""Examples of the parity check: those inside the artifact, or the whole test split.

Shapes: images uint8 [N, channels, H, W] or rows float32 [N, F].
"""

from pathlib import Path
from typing import Literal, NamedTuple

from mnexport.export_source import example_noun
from mnexport.progress import OnProgress
from mntrain.artifact import ImageArtifact, TableArtifact
from mntrain.data.images import ImageSet
from mntrain.data.tables import TableSet
from mntrain.training.artifact_data import load_split

ParityImages = Literal["samples", "test"]


class ParityExamples(NamedTuple):
    """Examples that an export is checked on, with their origin in words."""

    examples: ImageSet | TableSet
    source: str


def parity_examples(
    artifact: ImageArtifact | TableArtifact,
    images: ParityImages,
    data_path: str | Path | None,
    on_progress: OnProgress,
) -> ParityExamples:
    """Take the held-out examples inside the artifact, or load the whole test split.

    Args:
        artifact: trained.
        images: samples or test.
        data_path: where the data lies now, for ``test``; None is where it lay in training.
        on_progress: gets a line before the data is loaded.

    Raises:
        MnTrainError: the data cannot be read, or is not the artifact's.
    """
    noun = example_noun(artifact)
    if images == "samples":
        return ParityExamples(artifact.samples, f"{len(artifact.samples)} held-out {noun} of the artifact")
    on_progress("loading the test split")
    test = load_split(artifact.config, "test", data_path)
    return ParityExamples(test, f"test split, {len(test)} {noun}")

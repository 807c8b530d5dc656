"""Examples of the parity check: those inside the artifact, or the whole test split.

Shapes: images uint8 [N, channels, H, W] or rows float32 [N, F].
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mnexport.errors import UsageError
from mnexport.export_source import ExportSource, example_noun
from mnexport.progress import OnProgress
from mnexport.signature import ExportSignature
from mntrain.data.images import ImageSet
from mntrain.data.tables import RowArray, TableSet
from mntrain.training.artifact_data import load_split

ParityImages = Literal["samples", "test"]
# Few enough for the small batches, which are checked on the first examples alone.
_MAX_GAPS = 32


class ParityExamples(NamedTuple):
    """Examples that an export is checked on.

    Args:
        examples: real and held out, with their targets.
        source: their origin in words.
        gaps: rows with missing values, made from the examples; None where the model takes none.
    """

    examples: ImageSet | TableSet
    source: str
    gaps: RowArray | None = None

    @property
    def inputs(self) -> npt.NDArray[Any]:
        """Stored inputs [N, …] of all examples, rows with missing values first."""
        if self.gaps is None:
            return self.examples.inputs
        return np.concatenate([self.gaps, self.examples.inputs])


def parity_examples(
    source: ExportSource,
    images: ParityImages,
    data_path: str | Path | None,
    on_progress: OnProgress,
) -> ParityExamples:
    """Take the examples inside the artifact, or load the whole test split.

    Args:
        source: what is exported.
        images: samples or test.
        data_path: where the data lies now, for ``test``; None is where it lay in training.
        on_progress: gets a line before the data is loaded.

    Raises:
        UsageError: the test split of a head on features, which has no images.
        MnTrainError: the data cannot be read, or is not the artifact's.
    """
    artifact = source.artifact
    noun = example_noun(artifact) if source.graft is None else "images"
    if images == "samples":
        examples = source.samples
        origin = f"{len(examples)} {artifact.config.samples_are} {noun} of the artifact"
    elif source.graft is not None:
        raise UsageError(
            f"--parity test reads the test split, of which a head on features knows no images; leave it out, and the "
            f"whole is checked on the {len(source.samples)} images of the artifact."
        )
    else:
        on_progress("loading the test split")
        examples = load_split(artifact.config, "test", data_path)
        origin = f"test split, {len(examples)} {noun}"
    gaps = rows_with_gaps(examples.inputs, source.signature) if isinstance(examples, TableSet) else None
    if gaps is None:
        return ParityExamples(examples, origin)
    return ParityExamples(examples, f"{origin}, and {len(gaps)} with missing values", gaps)


def rows_with_gaps(rows: RowArray, signature: ExportSignature) -> RowArray | None:
    """Make rows in which each column that may lack a value lacks it, and one that lacks them all.

    Args:
        rows: stored [N, F].
        signature: of the model.

    Returns:
        At most 32 rows; None where no column may lack a value.
    """
    columns, categories = signature.stored_shape[-1], len(signature.vocabularies)
    may_lack = np.arange(0 if signature.takes_nan else columns - categories, columns)
    if not (signature.takes_nan or categories):
        return None
    groups = [may_lack[start :: _MAX_GAPS - 1] for start in range(min(len(may_lack), _MAX_GAPS - 1))]
    gaps = rows[np.arange(len(groups) + 1) % len(rows)]
    for row, group in zip(gaps, [*groups, may_lack], strict=True):
        row[group] = np.where(group < columns - categories, np.nan, -1)
    return gaps

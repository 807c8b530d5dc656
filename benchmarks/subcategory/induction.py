"""Accuracy of nearest neighbors for classes that training never saw (induction accuracy, appendix A.9).

References are the training examples; queries are those of the validation split, which choose the number of neighbors,
and those of the test split.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.retrieval import Retrieval, retrieve
from mntrain.artifact import ImageArtifact
from mntrain.data.examples import IndexArray

NEIGHBORS_TRIED = (1, 5, 10, 20, 50)
FEATURES, ATTENTION = "features z", "attention ω"


@dataclass(frozen=True, kw_only=True)
class Induction:
    """Accuracies of one model.

    Args:
        space: features or attention, whose cosine says what is near.
        network: accuracy of the model itself on the coarse labels of the test split.
        coarse, fine: accuracy of nearest neighbors on the test split by their number.
        validation: the same on the validation split, fine labels.
    """

    space: str
    network: float
    coarse: dict[int, float]
    fine: dict[int, float]
    validation: dict[int, float]


def measure(artifact: ImageArtifact, data: ReportInput) -> Iterator[Induction]:
    """Measure a classifier in each of its spaces; ``data`` holds its splits and their finer labels."""
    assert data.fine is not None
    model, preprocessing = artifact.model, artifact.preprocessing
    train, validation, test = (
        observe(model, preprocessing, name, part, len(part))
        for name, part in (("train", data.data.train), ("validation", data.data.validation), ("test", data.data.test))
    )
    network = float((test.logits.argmax(dim=-1) == test.labels).float().mean())
    for space in (FEATURES, ATTENTION):
        references, *queries = (_vectors(observed, space) for observed in (train, validation, test))
        if references is None:
            continue
        known, tested = (retrieve(references, query, max(NEIGHBORS_TRIED)) for query in queries if query is not None)
        yield Induction(
            space=space,
            network=network,
            coarse=accuracies(tested, train.examples.targets, test.examples.targets),
            fine=accuracies(tested, data.fine.train, data.fine.test),
            validation=accuracies(known, data.fine.train, data.fine.validation),
        )


def accuracies(found: Retrieval, reference_labels: IndexArray, labels: IndexArray) -> dict[int, float]:
    """Return the accuracy by each number of neighbors that was tried."""
    return {
        count: Retrieval(nearest=found.nearest[:, :count]).accuracy(reference_labels, labels)
        for count in NEIGHBORS_TRIED
        if count <= found.nearest.shape[1]
    }


def chosen_neighbors(runs: Sequence[Induction]) -> int:
    """Return the number of neighbors with the best mean accuracy on validation, the smallest of equals."""
    return max(runs[0].validation, key=lambda count: statistics.fmean(run.validation[count] for run in runs))


def _vectors(observed: Observed, space: str) -> Tensor | None:
    return observed.features if space == FEATURES else observed.attention

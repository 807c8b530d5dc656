"""Section of retrieval and kNN on attention vectors and on features (A.9, Fig. 6)."""

from typing import Any

import numpy as np

from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.retrieval import NEIGHBORS, Retrieval, retrieve
from mntrain.analysis.sections.content import Section, Strip, Table, percent, picture

_QUERIES = 8


def retrieval_section(report_input: ReportInput, train: Observed, test: Observed) -> Section | None:
    """Show kNN accuracy for the run's labels and finer ones, and retrieved images; None without features."""
    if train.features is None or test.features is None:
        return None
    spaces = {"features z": retrieve(train.features, test.features)}
    if train.attention is not None and test.attention is not None:
        spaces = {"attention ω": retrieve(train.attention, test.attention)} | spaces
    kinds = [("labels of the run", report_input.labels, train.examples.targets, test.examples.targets)]
    if report_input.fine is not None:
        fine = report_input.fine
        kinds.append((f"finer labels, {fine.column}", fine.names, fine.train[train.indices], fine.test[test.indices]))
    rows, numbers = [], {}
    for title, names, reference, labels in kinds:
        accuracies = {space: retrieval.accuracy(reference, labels) for space, retrieval in spaces.items()}
        rows.append((f"{title} ({len(names)} classes)", *(percent(value) for value in accuracies.values())))
        numbers["fine" if title.startswith("finer") else "labels"] = {
            space.split()[0]: value for space, value in accuracies.items()
        }
    space, retrieval = next(iter(spaces.items()))
    _, names, reference, labels = kinds[-1]
    strips = _strips(retrieval, train, test, _Labels(names, reference, labels))
    below = (
        f"Below, test images and the training images nearest to them by {space}; ✓ has the label of the query, ✗ has "
        "not (Fig. 6 of the paper).",
    )
    return Section(
        anchor="retrieval",
        title="Retrieval of sub-categories" if report_input.fine is not None else "Retrieval",
        text=(
            f"A classifier by the {retrieval.nearest.shape[1]} nearest of {len(train.examples):,} training "
            f"{report_input.nouns} (cosine) asked about {len(test.examples):,} test {report_input.nouns}."
            + ("" if report_input.fine is None else " The finer labels were not seen in training (appendix A.9)."),
            *(below if strips else ()),
        ),
        table=Table(headings=("kNN accuracy", *spaces), rows=tuple(rows)),
        strips=strips,
        numbers={"neighbors": NEIGHBORS, "knn_accuracy": numbers},
    )


class _Labels:
    """Names, and the labels of references and queries."""

    def __init__(self, names: tuple[str, ...], reference: Any, queries: Any) -> None:
        self.names, self.reference, self.queries = names, reference, queries


def _strips(retrieval: Retrieval, train: Observed, test: Observed, labels: _Labels) -> tuple[Strip, ...]:
    """Show queries spread over the classes, drawn with a fixed seed; nothing where examples are no images."""
    if test.images is None or train.images is None:
        return ()
    order = np.random.default_rng(0).permutation(len(test.examples))
    _, first = np.unique(labels.queries[order], return_index=True)
    queries = order[np.sort(first)][:_QUERIES]
    strips = []
    for query in queries:
        name = labels.names[labels.queries[query]]
        pictures = [picture(test.images, query, f"query: test image {test.indices[query]}, {name}", "query")]
        for index in retrieval.shown[query]:
            right = labels.reference[index] == labels.queries[query]
            alt = f"training image {train.indices[index]}, {labels.names[labels.reference[index]]}"
            pictures.append(picture(train.images, int(index), alt, "right" if right else "wrong"))
        strips.append(Strip(label=name, pictures=tuple(pictures)))
    return tuple(strips)

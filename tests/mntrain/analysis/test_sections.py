"""Texts and marks of the sections, against the data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure as Drawing
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.report_input import FineLabels, ReportInput
from mntrain.analysis.sections import curves
from mntrain.analysis.sections.content import Section
from mntrain.analysis.sections.neighbors import neighbors_section
from mntrain.analysis.sections.retrieval import retrieval_section
from mntrain.analysis.sections.usage import usage_section


@pytest.fixture(scope="module")
def trained(report_input: ReportInput) -> Observed:
    """Run the model on 300 training images."""
    return observe(
        report_input.artifact.model, report_input.artifact.preprocessing, "train", report_input.data.train, 300
    )


def knn_accuracy(references: Tensor, labels: Tensor, queries: Tensor, wanted: Tensor) -> float:
    nearest = (normalize(queries) @ normalize(references).mT).topk(10, dim=-1).indices
    votes = one_hot(labels[nearest]).sum(dim=1).argmax(dim=-1)
    return float((votes == wanted).double().mean())


def test_knn_is_asked_in_both_spaces_for_both_kinds_of_labels(
    report_input: ReportInput, trained: Observed, observed: Observed
) -> None:
    random = np.random.default_rng(1)
    known, wanted = (random.integers(0, 3, len(part)) for part in (report_input.data.train, report_input.data.test))
    names = ("first", "second", "third")
    lots = FineLabels(column="lots", names=names, train=known, validation=known[:0], test=wanted)
    section = retrieval_section(replace(report_input, fine=lots), trained, observed)
    assert section is not None
    assert trained.attention is not None
    assert observed.attention is not None
    assert trained.features is not None
    assert observed.features is not None
    spaces = {
        "attention": (trained.attention, observed.attention),
        "features": (trained.features, observed.features),
    }
    drawn = torch.from_numpy(known[trained.indices]), torch.from_numpy(wanted[observed.indices])
    for kind, labels in {"labels": (trained.labels, observed.labels), "fine": drawn}.items():
        for space, (references, queries) in spaces.items():
            expected = knn_accuracy(references, labels[0], queries, labels[1])
            assert section.numbers["knn_accuracy"][kind][space] == pytest.approx(expected, abs=0.011)
    check_marks(section, lambda label: label)


def check_marks(section: Section, wanted: Callable[[str], str]) -> None:
    """Check that pictures are marked right exactly if they are of the class of their strip."""
    marks = []
    for strip in section.strips:
        for one in strip.pictures:
            if one.mark != "query":
                assert (one.mark == "right") == (one.alt.rpartition(", ")[2] == wanted(strip.label))
                marks.append(one.mark)
    assert set(marks) == {"right", "wrong"}, "some are wrong, or nothing is tested"


def test_images_beside_an_entry_are_marked_by_its_class(report_input: ReportInput, observed: Observed) -> None:
    section = neighbors_section(report_input, observed)
    assert section is not None
    entry = re.compile(r"entry \d+: (.*), \d+%")

    def of_entry(label: str) -> str:
        found = entry.fullmatch(label)
        assert found is not None
        return found.group(1)

    check_marks(section, of_entry)


def test_entries_with_half_of_the_attention_are_counted(report_input: ReportInput, observed: Observed) -> None:
    section = usage_section(report_input, observed.attention)
    assert section is not None
    assert observed.attention is not None
    ordered, total, count = sorted(observed.attention.double().mean(dim=0).tolist(), reverse=True), 0.0, 0
    while total < 0.5:
        total += ordered[count]
        count += 1
    assert section.numbers["entries_with_half_the_attention"] == count
    assert 1 < count < 60


def test_each_curve_draws_the_split_of_its_label(report_input: ReportInput, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Drawing] = {}

    def figure(name: str, draw: Callable[[Drawing], None], **_: Any) -> Any:
        drawn[name] = Drawing()
        draw(drawn[name])

    monkeypatch.setattr(curves, "figure", figure)
    assert curves.curves_section(report_input) is not None
    for name in ("loss", "accuracy"):
        lines = {line.get_label(): line for line in drawn[f"curve-{name}"].axes[0].get_lines()}
        for part in ("train", "validation"):
            np.testing.assert_array_equal(lines[part].get_ydata(), report_input.history[f"{part}_{name}"])
            np.testing.assert_array_equal(lines[part].get_xdata(), report_input.history["epoch"])
    assert (
        torch.tensor(report_input.history["train_loss"]).ne(torch.tensor(report_input.history["validation_loss"])).all()
    )

"""A run to look at."""

from pathlib import Path

import pytest

from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.report_input import ReportInput, ReportOptions, load_report_input


@pytest.fixture(scope="session")
def subject(runs: Path) -> ReportInput:
    """The small Meta-Neighborhoods run on digits."""
    return load_report_input(ReportOptions(run=runs / "meta_neighborhoods", images=200, quiet=True))


@pytest.fixture(scope="session")
def observed(subject: ReportInput) -> Observed:
    """200 of its test images."""
    return observe(subject.artifact.model, subject.artifact.preprocessing, "test", subject.data.test, 200)

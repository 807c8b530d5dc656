"""A loaded run, and the answers of its model."""

from pathlib import Path

import pytest

from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.report_input import ReportInput, ReportOptions, load_report_input


@pytest.fixture(scope="session")
def report_input(runs: Path) -> ReportInput:
    """Load the small Meta-Neighborhoods run on digits."""
    return load_report_input(ReportOptions(run=runs / "meta_neighborhoods", images=200, quiet=True))


@pytest.fixture(scope="session")
def observed(report_input: ReportInput) -> Observed:
    """Run the model on 200 test images."""
    return observe(
        report_input.artifact.model, report_input.artifact.preprocessing, "test", report_input.data.test, 200
    )

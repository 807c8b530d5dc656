"""A run to look at, and a browser to look with."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mntrain.analysis.observation import Observed, observe
from mntrain.analysis.subject import ReportOptions, Subject, load_subject

sys.path.insert(0, str(Path(__file__).parent))
from chromium import Chromium

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def subject(runs: Path) -> Subject:
    """The small Meta-Neighborhoods run on digits."""
    return load_subject(ReportOptions(run=runs / "meta_neighborhoods", images=200, quiet=True))


@pytest.fixture(scope="session")
def observed(subject: Subject) -> Observed:
    """200 of its test images."""
    return observe(subject.artifact.model, subject.artifact.preprocessing, "test", subject.data.test, 200)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Headless Chromium; a test that wants it is skipped where there is none."""
    executable = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if executable is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with Chromium(executable, tmp_path_factory.mktemp("profile")) as page:
        yield page
